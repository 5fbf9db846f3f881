"""Values of the standard library: threads, tasks, processes and what they meet at."""

from __future__ import annotations

from durable_nb.testing.zoo import STANDARD, Value

LIBRARY = STANDARD
SETUP = """
import asyncio
import concurrent.futures
import multiprocessing
import multiprocessing.pool
import multiprocessing.shared_memory
import queue
import sched
import threading
import time
"""
LOOP = "it belongs to the event loop of the lost kernel"
WORKERS = "it belongs to the process that started it"
SHARED = "it belongs to the processes that share it"
VALUES = [
    Value(
        cls="_thread.lock",
        make="threading.Lock()",
        check="x.acquire(timeout=1) is True and x.release() is None",
        keeps="exact",
        note="free",
    ),
    Value(
        cls="_thread.lock",
        make="held = None\n(lambda lock: [lock.acquire(), lock][1])(threading.Lock())",
        check="x.locked()",
        keeps="reported",
        note="held: whoever held it is gone",
    ),
    Value(
        cls="_thread.RLock",
        make="threading.RLock()",
        check="x.acquire(timeout=1) is True and x.release() is None",
        keeps="exact",
        note="free",
    ),
    Value(cls="threading.Event", make="e1 = threading.Event()\ne1.set()\ne1", check="x.is_set()", keeps="exact"),
    Value(
        cls="threading.Condition",
        make="threading.Condition()",
        check="[x.acquire(), x.notify_all(), x.release()]",
        keeps="exact",
    ),
    Value(
        cls="threading.Semaphore",
        make="semaphore = threading.Semaphore(2)\nsemaphore.acquire()\nsemaphore",
        check="(x.acquire(timeout=1), x.acquire(blocking=False)) == (True, False)",
        keeps="exact",
        note="with its count",
    ),
    Value(
        cls="threading.BoundedSemaphore",
        make="threading.BoundedSemaphore(1)",
        check="x.acquire(timeout=1) and x.release() is None",
        keeps="exact",
    ),
    Value(cls="threading.Barrier", make="threading.Barrier(1)", check="x.wait(1) == 0", keeps="exact"),
    Value(
        cls="threading.Thread",
        make="threading.Thread(target=print)",
        check="x.daemon in (True, False)",
        keeps="reported",
        note=WORKERS,
    ),
    Value(
        cls="threading.Timer",
        make="threading.Timer(9, print)",
        check="x.interval == 9",
        keeps="reported",
        note=WORKERS,
    ),
    Value(
        cls="_thread._local",
        make="threading.local()",
        check="not vars(x)",
        keeps="reported",
        note="its data belongs to threads of the lost kernel",
    ),
    Value(
        cls="queue.Queue",
        make="q1 = queue.Queue(5)\nq1.put('a')\nq1",
        check="x.get(timeout=1) == 'a' and x.maxsize == 5",
        keeps="exact",
        note="with its items",
    ),
    Value(
        cls="queue.PriorityQueue",
        make="q2 = queue.PriorityQueue()\nq2.put(3)\nq2.put(1)\nq2",
        check="(x.get(timeout=1), x.get(timeout=1)) == (1, 3)",
        keeps="exact",
    ),
    Value(
        cls="_queue.SimpleQueue",
        make="queue.SimpleQueue()",
        check="x.empty()",
        keeps="reported",
        note="it does not show what is in it; use queue.Queue",
    ),
    Value(
        cls="sched.scheduler",
        make="plan = sched.scheduler(time.time, time.sleep)\nplan.enter(60, 1, print, ('a',))\nplan",
        check="len(x.queue) == 1 and x.queue[0].argument == ('a',)",
        keeps="exact",
        note="with its events",
    ),
    Value(
        cls="concurrent.futures.thread.ThreadPoolExecutor",
        make="concurrent.futures.ThreadPoolExecutor(1)",
        check="x.submit(pow, 2, 3).result() == 8",
        keeps="reported",
        note=WORKERS,
    ),
    Value(
        cls="concurrent.futures._base.Future",
        make="concurrent.futures.Future()",
        check="not x.done()",
        keeps="reported",
        note="its executor is gone; its result can be kept",
    ),
    Value(
        cls="multiprocessing.queues.Queue",
        make="multiprocessing.Queue()",
        check="x.empty()",
        keeps="reported",
        note=SHARED,
    ),
    Value(
        cls="multiprocessing.synchronize.Lock",
        make="multiprocessing.Lock()",
        check="x.acquire()",
        keeps="reported",
        note=SHARED,
    ),
    Value(
        cls="multiprocessing.connection.Connection",
        make="multiprocessing.Pipe()[0]",
        check="not x.closed",
        keeps="reported",
        note=SHARED,
    ),
    Value(
        cls="multiprocessing.shared_memory.SharedMemory",
        make="multiprocessing.shared_memory.SharedMemory(create=True, size=8)",
        check="[x.size >= 8, x.close(), x.unlink()][0]",
        keeps="reported",
        note=SHARED,
    ),
    Value(
        cls="multiprocessing.context.Process",
        make="multiprocessing.Process(target=print)",
        check="not x.is_alive()",
        keeps="reported",
        note=WORKERS,
    ),
    Value(
        cls="asyncio.events.AbstractEventLoop",
        make="asyncio.new_event_loop()",
        check="not x.is_closed()",
        keeps="reported",
        note=LOOP,
    ),
    Value(
        cls="_asyncio.Task",
        make="async def nothing():\n    pass\n\nasyncio.ensure_future(nothing())",
        check="x.get_name()",
        keeps="reported",
        note=f"{LOOP}; its result can be kept",
    ),
    Value(
        cls="_asyncio.Future",
        make="await asyncio.sleep(0)\nasyncio.get_running_loop().create_future()",
        check="not x.done()",
        keeps="reported",
        note=f"{LOOP}; its result can be kept",
    ),
    Value(
        cls="coroutine",
        make="nothing()",
        check="x.cr_frame",
        keeps="reported",
        note="its frame is in the lost kernel",
    ),
    Value(
        cls="async_generator",
        make="async def numbers():\n    yield 1\n\nnumbers()",
        check="x.ag_frame",
        keeps="reported",
        note="its frame is in the lost kernel",
    ),
    Value(
        cls="asyncio.queues.Queue",
        make="aq = asyncio.Queue(3)\naq.put_nowait(1)\naq",
        check="x.get_nowait() == 1 and x.maxsize == 3",
        keeps="exact",
        note="with its items",
    ),
    Value(cls="asyncio.locks.Event", make="ae = asyncio.Event()\nae.set()\nae", check="x.is_set()", keeps="exact"),
    Value(cls="asyncio.locks.Lock", make="asyncio.Lock()", check="not x.locked()", keeps="exact", note="free"),
    Value(
        cls="asyncio.locks.Semaphore",
        make="asyncio.Semaphore(2)",
        check="not x.locked() and x._value == 2",
        keeps="exact",
    ),
    Value(cls="asyncio.locks.Condition", make="asyncio.Condition()", check="not x.locked()", keeps="exact"),
]
