"""Calls without a pause until SIGTERM or a call that fails, and says what became of its calls.

python client.py unix:/run/demo/nearcall.sock
"""

import signal
import sys

import nearcall

stopping = []
signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
calls = failed = server = 0
# A call may be sent five times where it was certainly not executed, all within two seconds.
with nearcall.Client(sys.argv[1], attempts=5, timeout=2) as go:
    while not stopping:
        calls += 1
        try:
            process = go.transfer(**{"from": "alice", "to": "bob", "cents": calls})
        except nearcall.NearcallError as error:
            failed += 1
            print("failed:", error, flush=True)
            break
        if process != server:
            server = process
            print("server", server, flush=True)
print(f"calls {calls}, failed {failed}")
