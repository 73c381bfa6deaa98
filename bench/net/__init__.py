"""Our server and client on loopback against their peers, in one run: `python -m bench.net`, or `make bench-net`.

Every server is a process of its own on 127.0.0.1; one generator (`_load`) drives all of them with the same shape: one
publisher that writes batches made beforehand, subscribers that count, a window of what is published and not received
yet. Of each server we print the rate and the CPU time of its processes for each delivered notification. The generator
runs on the same cores, so the rate says as much about the machine as about the server: CPU time decides.

    _load        the generator: throughput, latency one by one, latency under a steady load
    _processes   start a server, read its CPU time and memory, stop it, install it
    _tidings     how to run and speak to each server; a *dialect*
    _mosquitto, _nats, _redis, _rabbitmq
    _broker      our server, as a process
    _report      the table
    a_fanout ... f_idle   the scenarios, each with a `run(bench)`
"""
