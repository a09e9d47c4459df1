"""The client in Python without any library, in the simple protocol:

python client_plain.py /tmp/hello/nearcall.sock
"""

import json
import socket
import struct
import sys

connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
stream = connection.makefile("rwb")


def call(function, *arguments):
    request = json.dumps({"f": function, "a": arguments}).encode()
    stream.write(struct.pack(">I", len(request)) + request)
    stream.flush()
    (length,) = struct.unpack(">I", stream.read(4))
    return json.loads(stream.read(length))


print("greet:", call("greet", "World")["r"])
print("divide: {}, remainder {}".format(*call("divide", 17, 5)["r"]))
print("visit:", call("visit", "/")["r"])
print("error: {name}, {outcome}, {message}".format(**call("divide", 1, 0)["e"]))
