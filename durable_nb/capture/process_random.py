"""Random streams of libraries: numpy's global one and torch's default generators.

Used by `process`. Nothing here imports a library: what is not in `sys.modules` has no state yet.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from durable_nb.capture.process_options import Library as _Library
from durable_nb.model import Unsaved

__all__ = ["NumpyRandom", "TorchRandom"]


class NumpyRandom(_Library):
    """The legacy global stream of numpy."""

    name = "numpy.random"
    needs = "numpy.random"

    def mark(self) -> Any:
        state = sys.modules["numpy.random"].get_state(legacy=False)
        if state["bit_generator"] != "MT19937":  # numpy.random.set_bit_generator put another one in
            return ("other", pickle.dumps(state, protocol=5))
        inner = state["state"]
        return (inner["key"].tobytes(), inner["pos"], state["has_gauss"], state["gauss"])

    def base(self, mark: Any) -> Any:
        # Seeded by the system and never drawn from, a state starts like this; every seed() leaves position 624.
        untouched = mark[0] != "other" and mark[1] == 623 and mark[0][:4] == (0x80000000).to_bytes(4, sys.byteorder)
        return mark if untouched else None

    def dump(self, mark: Any) -> bytes:
        return pickle.dumps(mark, protocol=5)

    def load(self, value: bytes) -> list[Unsaved]:
        mark, random = pickle.loads(value), sys.modules["numpy.random"]
        generator = random.get_bit_generator()
        if mark[0] == "other":
            state = pickle.loads(mark[1])
            if type(generator).__name__ != state["bit_generator"]:
                random.set_bit_generator(getattr(random, state["bit_generator"])())
            random.set_state(state)
            return []
        if type(generator).__name__ != "MT19937":
            random.set_bit_generator(random.MT19937())
        key = sys.modules["numpy"].frombuffer(mark[0], dtype="uint32")
        random.set_state(("MT19937", key, *mark[1:]))
        return []


class TorchRandom(_Library):
    """torch's default generators: the processor's, and those of graphics cards that are in use."""

    name = "torch.random"
    needs = "torch"

    def mark(self) -> Any:
        torch = sys.modules["torch"]
        cards = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return tuple(state.numpy().tobytes() for state in (torch.get_rng_state(), *cards))

    def dump(self, mark: Any) -> bytes:
        return pickle.dumps(mark, protocol=5)

    def load(self, value: bytes) -> list[Unsaved]:
        torch = sys.modules["torch"]
        processor, *cards = (torch.frombuffer(bytearray(s), dtype=torch.uint8) for s in pickle.loads(value))
        torch.set_rng_state(processor)
        if len(cards) > torch.cuda.device_count():
            reason = f"there were {len(cards)} graphics cards, now there are {torch.cuda.device_count()}"
            return [Unsaved(name=self.name, path="cuda", type="Generator", reason=reason)]
        if cards:
            torch.cuda.set_rng_state_all(cards)
        return []
