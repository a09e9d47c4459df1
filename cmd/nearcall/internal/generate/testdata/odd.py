"""Calls functions whose names and fields are no identifiers."""

import sys

from odd import Node, Odd

odd = Odd(sys.argv[1])
tree: Node = {"next": {"children": [{}, {}]}}
assert odd.tree_depth(tree) == 3
assert odd.tree_same({"odd": {"a field": 5, "class": 6}})["odd"]["a field"] == 5
assert odd.tree_same_2(None) == []
one, two, points = odd.new(1, 2)
assert (one, two, points[0]["x"]) == (1, "two", 3)
assert odd.class_("x", {"x": 1}, {"x": 2})
odd.it_s()
with open(sys.argv[0], "rb") as script:
    same, many, no_connection = odd.file(script, [script, script], None)
    assert same.read().startswith(b'"""Calls functions')
    assert len(many) == 2
    assert no_connection is None
print("ok")
