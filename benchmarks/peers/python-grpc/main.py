"""gRPC's own Python, calling the Go server of the gRPC peer.

What it is used for is in ../README.md.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "callers"), str(HERE)]

import echo_pb2  # noqa: E402
import echo_pb2_grpc  # noqa: E402
import grpc  # noqa: E402
from calling import Call, obey, payload_of  # noqa: E402

DESCRIPTION = {
    "version": grpc.__version__,
    "configuration": (
        "the server is the gRPC peer's, in Go; Unix socket, insecure channel;"
        " all callers, which are threads, share one channel and stub"
    ),
    "documentation": "https://grpc.io/docs/guides/performance/",
}


def open_callers(address: str, size: int, callers: int) -> list[Call]:
    stub = echo_pb2_grpc.EchoStub(grpc.insecure_channel(address))
    payload = payload_of(size)

    def call() -> None:
        if len(stub.Echo(echo_pb2.Bytes(data=payload)).data) != size:
            raise ValueError("the echo differs")

    if stub.Echo(echo_pb2.Bytes(data=payload)).data != payload:
        sys.exit("the echo differs")
    return [call] * callers


def main() -> None:
    match sys.argv[1:]:
        case ["call", address, size, callers]:
            obey(open_callers(address, int(size), int(callers)))
        case ["describe"]:
            print(json.dumps(DESCRIPTION))
        case _:
            sys.exit("usage: main.py call ADDRESS PAYLOAD_BYTES CALLERS, or describe; the server is the gRPC peer's")


if __name__ == "__main__":
    main()
