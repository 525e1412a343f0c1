"""Tools that run on an existing Ray cluster. Ray places and ends their bodies; the journal stays in clicket's store.

    runtime ── ray_lane ── cluster ── attempts ══ Ray ══ worker ── the tool
                                 (ray:// : attempts is an actor of the cluster)

- `cluster`: the connection to Ray, made when the first call needs it
- `attempts`: submits bodies, reads what they send, ends them; in this process, or in an actor when the address is `ray://`
- `placed_body`: one body as the event loop sees it
- `worker`: runs in the Ray worker: one body, and what it sends, as a stream

Only JSON crosses: a body is found by its module and name, arguments and results are JSON bytes, a failure is a description. Ray
itself pickles the reference to `worker.run_body` and the bytes.
"""
