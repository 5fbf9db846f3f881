"""The edge towards IPython and ipykernel: how cells are taken over, outputs recorded, verbs typed."""
