"""A simulation of many workers over one store: where is the next bottleneck, and what does a failure cost?

- `costs`: what each step takes, as measured
- `waiting`: the calls that wait, in the order in which a store hands them out
- `calls`: the calls, moved along the kernel's own table, and what must hold for them
- `fleet`: submitters, workers, the store and the messages as a discrete-event simulation
- `cases`: the situations that `make fleet-model` prints
"""
