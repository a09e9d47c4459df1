"""Relays connections to a Unix socket and counts what callers sent on each.

Arguments: the socket to listen on, the socket to connect to. A line on standard
input is answered by PID:BYTES:open or PID:BYTES:closed for each connection.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys


class Relay:
    def __init__(self, own: str, server: str) -> None:
        self.server = server
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(own)
        self.listener.listen(1024)
        self.records: list[list[int | bool]] = []
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self.report)

    def accept(self) -> None:
        caller, _ = self.listener.accept()
        pid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.server)
        record: list[int | bool] = [pid, 0, True]
        self.records.append(record)
        self.selector.register(caller, selectors.EVENT_READ, lambda: self.carry(caller, server, record, True))
        self.selector.register(server, selectors.EVENT_READ, lambda: self.carry(server, caller, record, False))

    def carry(self, source: socket.socket, sink: socket.socket, record: list[int | bool], counts: bool) -> None:
        try:
            data = source.recv(1 << 16)
            sink.sendall(data)
        except OSError:
            data = b""
        if counts:
            record[1] += len(data)
        if not data:
            record[2] = False
            for end in (source, sink):
                self.selector.unregister(end)
                end.close()

    def report(self) -> None:
        if not sys.stdin.readline():
            sys.exit(0)
        print(*(f"{pid}:{count}:{'open' if alive else 'closed'}" for pid, count, alive in self.records), flush=True)

    def run(self) -> None:
        print("ready", flush=True)
        while True:
            for key, _ in self.selector.select():
                # An earlier event of this round may have closed it.
                if key.fileobj in self.selector.get_map():
                    key.data()


if __name__ == "__main__":
    Relay(sys.argv[1], sys.argv[2]).run()
