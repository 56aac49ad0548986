#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the C API has all functions of the C++ API. Usage: c_api.py ROOT.

Complaints, with exit status 1: a function of hawser::Engine or hawser::Endpoint that the C headers do
not have as hawser_NAME, hawser_endpoint_NAME or hawser_engine_NAME; a member of a configuration, of
statistics, events or records that its C struct does not have.
"""

import os
import re
import sys

# C++ struct -> (its C struct, members that C has in another form)
STRUCTS = {
    "EngineConfig": ("hawser_engine_config", set()),
    "EndpointConfig": ("hawser_endpoint_config", set()),
    "SendRequest": ("hawser_send_request", set()),
    "ReceiveRequest": ("hawser_receive_request", set()),
    "ProbeRequest": ("hawser_probe_request", set()),
    "ClaimedRequest": ("hawser_claimed_request", set()),
    "Hint": ("hawser_hint", set()),
    "ExposeRequest": ("hawser_expose_request", set()),
    "RegionKey": ("hawser_region_key", set()),
    "RegionStats": ("hawser_region_stats", set()),
    "WordOperation": ("hawser_word_operation", set()),
    "Signal": ("hawser_signal", set()),
    "WriteRequest": ("hawser_write_request", set()),
    "ReadRequest": ("hawser_read_request", set()),
    "AtomicRequest": ("hawser_atomic_request", set()),
    "FlushRequest": ("hawser_flush_request", set()),
    "Completion": ("hawser_completion", set()),
    "Envelope": ("hawser_envelope", set()),
    "DmabufRange": ("hawser_dmabuf_range", set()),
    "NicStats": ("hawser_nic_stats", set()),
    "PathStats": ("hawser_path_stats", set()),
    # In C the caller names the peer, and gives the array for the paths.
    "PeerStats": ("hawser_peer_stats", {"peer", "paths"}),
    "Event": ("hawser_event", set()),
    "Verdict": ("hawser_verdict", set()),
    "TraceRecord": ("hawser_trace_record", set()),
}
NOT_CALLED = {"Engine", "Endpoint"}
# C++ class of hawser/collectives.hpp -> how its functions may be called in C
COLLECTIVES = {
    "CompletionRouter": "hawser_coll_router_{}",
    "Communicator": "hawser_coll_{}",
}
COLLECTIVES_OTHERWISE = {
    "CompletionRouter": {"CompletionRouter": "create", "endpoint": None},
    "Communicator": {"Communicator": "create", "rank": "rank_of"},
}
OTHER_NAMES = {"create_endpoint": "hawser_endpoint_create"}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def body(text, opening):
    """The text between the braces that follow `opening`, without nested ones; None if not there."""
    at = text.find(opening)
    if at < 0:
        return None
    depth, inside = 0, []
    for character in text[text.index("{", at) :]:
        depth += character == "{"
        if depth == 1:
            inside.append(character)
        depth -= character == "}"
        if depth == 0:
            break
    return "".join(inside)


def members(inside):
    """Names of the data members."""
    found = set()
    for statement in inside.strip("{}").split(";"):
        statement = re.sub(r"=.*", "", statement, flags=re.S).strip()
        match = re.search(r"(\w+)(\[\w+\])?$", statement)
        if match and "(" not in statement and not statement.startswith(("enum", "static", "friend")):
            found.add(match.group(1))
    return found


def check(root):
    folder = os.path.join(root, "include", "hawser")
    cpp, header = "", ""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = without_comments(file.read())
        if name.endswith(".h"):
            header += text
        else:
            cpp += text
    complaints = []
    functions = set()
    for name in ("Endpoint", "Engine"):
        inside = body(cpp, f"class {name} {{").split("private:")[0]
        functions |= set(re.findall(r"(\w+)\(", inside)) - NOT_CALLED
    for name in sorted(functions - {"explicit", "span"}):
        wanted = OTHER_NAMES.get(name, rf"hawser_(?:endpoint_|engine_)?{name}")
        if not re.search(rf"\b{wanted}\(", header):
            complaints.append(f"hawser.h has no function for {name}")
    for class_name, pattern in COLLECTIVES.items():
        inside = body(cpp, f"class {class_name} {{").split("private:")[0]
        for name in sorted(set(re.findall(r"(\w+)\(", inside))):
            wanted = COLLECTIVES_OTHERWISE[class_name].get(name, name)
            if wanted and not re.search(rf"\b{pattern.format(wanted)}\(", header):
                complaints.append(f"collectives.h has no function for {class_name}::{name}")
            functions.add(f"{class_name}::{name}")
    for name, (c_name, otherwise) in STRUCTS.items():
        inside, c_inside = body(cpp, f"struct {name} {{"), body(header, f"struct {c_name} {{")
        if inside is None or c_inside is None:
            complaints.append(f"{name} or {c_name} is not there")
            continue
        for member in sorted(members(inside) - members(c_inside) - otherwise):
            complaints.append(f"{c_name} has no {member}")
    return functions, complaints


def main():
    functions, complaints = check(sys.argv[1])
    for complaint in complaints:
        print(complaint)
    print(f"{len(functions)} functions, {len(STRUCTS)} structs, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
