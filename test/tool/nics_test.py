#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command's choice of NICs and addresses, on hosts that the test makes: namespaces with cables.

Usage: nics_test.py HAWSER CASE     runs one case (ctest does)
       nics_test.py HAWSER          runs all
       nics_test.py --list          names them

Without the privilege to make a network namespace a case says so and ends with 77.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import run_harness
from cases import HANG_LIMIT_S, Skipped, case, check, finish, read_until, start_process, wait_for
from run_harness import COMMAND



def small_of_others(scale="4096"):
    return ["--workload", "gpt2", "--scale", scale, "--steps", "1"]


SMALL_OF_OTHERS = small_of_others()  # who starts it says how many
SMALL = ["--ranks", "2", *SMALL_OF_OTHERS]
RENUMBERED_LIMIT_S = 12
ONE_WAY_LIMIT_S = 30
NIC_OF_CHANGE = 2  # place in the report's path_changes


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def made(*words):
    done = ip(*words)
    check(done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}")


@contextlib.contextmanager
def hosts(*names, lo="up"):
    """Makes namespaces whose names contain this process's id."""
    own = [f"hawser-{os.getpid()}-{name}" for name in names]
    try:
        for host in own:
            if ip("netns", "add", host).returncode != 0:
                raise Skipped("no permission to make a network namespace (or no iproute2)")
            made("-n", host, "link", "set", "lo", lo)
        yield own
    finally:
        for host in own:
            ip("netns", "del", host)


def cable(a, device_a, b, device_b):
    made("-n", a, "link", "add", device_a, "type", "veth", "peer", "name", device_b, "netns", b)
    made("-n", a, "link", "set", device_a, "up")
    made("-n", b, "link", "set", device_b, "up")


def write_in(host, path, text):
    subprocess.run(["ip", "netns", "exec", host, "sh", "-c", f"echo {text} > {path}"], check=True)


def never_ends_detection(host, device):
    """Makes duplicate address detection of this device take a minute."""
    write_in(host, f"/proc/sys/net/ipv6/conf/{device}/dad_transmits", 60)


def hawser(host, *words):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HAWSER_")}
    return finish(start_process(["ip", "netns", "exec", host, *COMMAND, *words], env=plain))


@case(gate=True)
def tentative_addresses_are_left_out_with_a_line():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        cable(a, "eth1", b, "eth1")
        never_ends_detection(a, "eth1")
        made("-n", a, "addr", "add", "fd07::1/64", "dev", "eth0", "nodad")
        made("-n", a, "addr", "add", "fd08::1/64", "dev", "eth1")
        status, output = hawser(a, "info")
        check(status == 0, output)
        check("udp:fd08::1                              eth1         tentative" in output, output)
        check("udp:fd07::1                              eth0         + chosen" in output, output)
        check("eth1         - its address is tentative" in output, output)
        status, output = hawser(a, "run", *SMALL, "--nic", "udp")
        check(status == 0 and "2 ranks x 1 NIC" in output, f"{status}\n{output}")
        check("NIC udp:fd08::1 (eth1) is left out: its address is tentative" in output, output)
        status, output = hawser(a, "run", *SMALL, "--nic", "if:eth1")
        check(status == 2 and "\"if:eth1\" choose no NIC of this host" in output, f"{status}\n{output}")
        check("udp:fd08::1 (eth1): its address is tentative" in output, output)


@case
def a_tentative_address_that_is_named_is_waited_for():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        made("-n", a, "addr", "add", "fd07::1/64", "dev", "eth0")
        status, output = hawser(a, "run", *SMALL, "--nic", "udp:fd07::1")
        check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case
def a_named_address_that_stays_tentative_is_told_as_what_it_is():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        never_ends_detection(a, "eth0")
        made("-n", a, "addr", "add", "fd07::1/64", "dev", "eth0")
        status, output = hawser(a, "run", *SMALL, "--nic", "udp:fd07::1")
        check(status == 2 and "the address is still tentative after 5 s" in output, f"{status}\n{output}")


@case(gate=True)
def a_duplicate_is_told_as_what_it_is():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        made("-n", b, "addr", "add", "fd07::1/64", "dev", "eth0", "nodad")
        made("-n", a, "addr", "add", "10.7.0.1/24", "dev", "eth0")
        made("-n", a, "addr", "add", "fd07::1/64", "dev", "eth0")
        wait_for(lambda: "fd07::1" in ip("-n", a, "-6", "addr", "show", "dadfailed").stdout, "a duplicate")
        status, output = hawser(a, "run", *SMALL, "--nic", "udp:fd07::1")
        check(status == 2 and "another host on the link has this address" in output, f"{status}\n{output}")
        check("no such address" not in output, output)
        status, output = hawser(a, "run", *SMALL, "--nic", "if:eth0")
        check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")


@case(gate=True)
def one_list_for_hosts_with_unlike_names():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "ens5")
        for host, device, address in ((a, "eth0", "10.7.0.1/24"), (b, "ens5", "10.7.0.2/24")):
            made("-n", host, "addr", "add", address, "dev", device)
            made("-n", host, "link", "add", "docker0", "type", "bridge")
            made("-n", host, "addr", "add", "172.17.0.1/16", "dev", "docker0")
            made("-n", host, "link", "set", "docker0", "up")
        for nics in ("net:10.7.0.0/16", "!docker*", "if:e*,!docker*"):
            for host, address in ((a, "udp:10.7.0.1"), (b, "udp:10.7.0.2")):
                status, output = hawser(host, "info", "--nics", nics)
                check(status == 0, output)
                chosen = [line.split()[0] for line in output.splitlines() if " + chosen" in line]
                check(chosen == [address], f"{nics}: {chosen}\n{output}")


def listener(host, address, port):
    """A program that accepts connections and sends nothing."""
    script = ("import socket; s = socket.socket(); "
              f"s.bind(('{address}', {port})); s.listen(); print('ready', flush=True); s.accept(); s.accept()")
    process = start_process(["ip", "netns", "exec", host, sys.executable, "-c", script])
    read_until(process, "ready")
    return process


@case(gate=True)
def a_name_of_several_addresses_is_tried_at_all_of_them():
    """Rank 0's name also stands for docker0's address, where rank 1's host has another server."""
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        for host, address in ((a, "10.7.0.1/24"), (b, "10.7.0.2/24")):
            made("-n", host, "addr", "add", address, "dev", "eth0")
            made("-n", host, "link", "add", "docker0", "type", "bridge")
            made("-n", host, "addr", "add", "172.17.0.1/16", "dev", "docker0")
            made("-n", host, "link", "set", "docker0", "up")
        with open("names", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n172.17.0.1 node0\n10.7.0.1 node0\n")
        names = os.path.abspath("names")
        stranger = listener(b, "172.17.0.1", 29400)
        ranks = []
        for rank, host in enumerate((a, b)):
            variables = [f"HAWSER_RANK={rank}", "HAWSER_SIZE=2", "HAWSER_RENDEZVOUS=node0:29400"]
            ranks.append(start_process(
                ["ip", "netns", "exec", host, "unshare", "--mount", "sh", "-c",
                 f"mount --bind {names} /etc/hosts && exec env \"$@\"", "sh", *variables, *COMMAND, "run",
                 *SMALL_OF_OTHERS]))
        for rank in ranks:
            status, output = finish(rank)
            check(status == 0, f"{status}\n{output}")
        stranger.kill()


def start_ranks(own_hosts, rendezvous, *words, nics=(), work=SMALL_OF_OTHERS):
    """Starts one rank on each host; `nics` are their lists, if they have lists of their own."""
    ranks = []
    for rank, host in enumerate(own_hosts):
        variables = [f"HAWSER_RANK={rank}", f"HAWSER_SIZE={len(own_hosts)}", f"HAWSER_RENDEZVOUS={rendezvous}"]
        if nics:
            variables.append(f"HAWSER_NICS={nics[rank]}")
        ranks.append(start_process(["ip", "netns", "exec", host, "env", *variables, *COMMAND, "run", *work, *words]))
    return ranks


def nics_of_ranks(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    return [[nic["name"] for nic in rank["nics"]] for rank in report["ranks"]]


def all_pass(ranks):
    """Checks that all ranks end well. Returns their outputs."""
    ended = [finish(rank) for rank in ranks]
    for status, output in ended:
        check(status == 0, f"{status}\n{output}")
    return [output for _, output in ended]


def pass_with(ranks, path, nics):
    """Checks that all ranks end well, and which NICs the report gives them. Returns their outputs."""
    outputs = all_pass(ranks)
    check(nics_of_ranks(path) == nics, f"{nics_of_ranks(path)} instead of {nics}\n{outputs}")
    return outputs


@contextlib.contextmanager
def switched(*addresses_of_hosts):
    """Hosts whose eth0 is on one switch, each with these addresses."""
    names = [f"h{index}" for index in range(len(addresses_of_hosts))]
    with hosts("switch", *names) as (switch, *own):
        made("-n", switch, "link", "add", "br0", "type", "bridge")
        made("-n", switch, "link", "set", "br0", "up")
        for index, (host, addresses) in enumerate(zip(own, addresses_of_hosts)):
            cable(host, "eth0", switch, f"port{index}")
            made("-n", switch, "link", "set", f"port{index}", "master", "br0")
            for address in addresses:
                made("-n", host, "addr", "add", address, "dev", "eth0",
                     *(["nodad"] if ":" in address else []))
        yield own


@case(gate=True)
def a_dual_stack_host_goes_by_one_that_has_only_ipv6():
    for nics in ((), ("if:eth0", "eth*"), ("!docker*,udp", "udp:fd07::2")):
        with switched(("10.7.0.1/24", "fd07::1/64"), ("fd07::2/64",)) as own:
            ranks = start_ranks(own, "[fd07::1]:29400", "--json", "report", nics=nics)
            pass_with(ranks, "report", [["udp:fd07::1"], ["udp:fd07::2"]])


@case(gate=True)
def a_dual_stack_host_goes_by_one_that_has_only_ipv4():
    with switched(("10.7.0.1/24", "fd07::1/64"), ("10.7.0.2/24",)) as own:
        ranks = start_ranks(own, "10.7.0.1:29400", "--json", "report")
        pass_with(ranks, "report", [["udp:10.7.0.1"], ["udp:10.7.0.2"]])


@case(gate=True)
def a_device_is_one_nic_however_many_addresses_it_has():
    """An address service may give one host more addresses than another one. The kernel decides on their order."""
    many = ("10.7.0.1/24", "10.7.0.11/24", "fd07::1/64", "fd07::11/64", "fd07::111/64")
    for few, family in ((("10.7.0.2/24", "fd07::2/64"), "udp:10."), (("fd07::2/64", "fd07::22/64"), "udp:fd07:")):
        for server, addresses in (("1", (many, few)), ("2", (few, many))):
            with switched(*addresses) as own:
                outputs = all_pass(start_ranks(own, f"[fd07::{server}]:29400", "--nics", "4", "--json", "report"))
                nics = nics_of_ranks("report")
                check(all(len(rank) == 1 and rank[0].startswith(family) for rank in nics), f"{nics}\n{outputs}")
                check("2 ranks x 1 NIC" in outputs[0] and "left out" not in "".join(outputs), outputs)


@case
def the_last_of_three_hosts_decides_and_a_device_is_left_out_with_a_line():
    both = ("10.7.0.1/24", "fd07::1/64"), ("10.7.0.2/24", "fd07::2/64")
    with switched(*both, ("fd07::3/64",)) as own:
        cable(own[0], "eth1", own[1], "eth1")
        made("-n", own[0], "addr", "add", "10.8.0.1/24", "dev", "eth1")
        made("-n", own[1], "addr", "add", "10.8.0.2/24", "dev", "eth1")
        outputs = pass_with(start_ranks(own, "[fd07::1]:29400", "--json", "report"), "report",
                            [["udp:fd07::1"], ["udp:fd07::2"], ["udp:fd07::3"]])
        for rank, address in ((0, "10.8.0.1"), (1, "10.8.0.2")):
            line = f"rank {rank}: NIC udp:{address} (eth1) is left out: it has no IPv6 address"
            check(line in outputs[rank], outputs[rank])
        check("left out" not in outputs[2], outputs[2])


@case(gate=True)
def hosts_without_a_family_in_common_say_which_has_which():
    # The rendezvous' TCP is on a second cable, whose addresses the lists leave out.
    with switched(("10.7.0.1/24",), ("fd07::2/64",)) as own:
        cable(own[0], "eth1", own[1], "eth1")
        for rank, host in enumerate(own):
            made("-n", host, "addr", "add", f"10.8.0.{rank + 1}/24", "dev", "eth1")
        for rank in start_ranks(own, "10.8.0.1:29400", nics=("if:eth0", "if:eth0")):
            status, output = finish(rank)
            check(status == 2, f"{status}\n{output}")
            sentence = (r"hawser: rank \d: The ranks' NICs have no address family in common: only IPv4 at rank 0 \(.*\); "
                        r"only IPv6 at rank 1 \(.*\); give every host an address of one family")
            check(re.search(sentence, output), output)


def dual_stack_lists(a, b):
    """Cables two hosts: the first cable has IPv4 addresses, and the second one IPv6. Returns lists of unlike order."""
    for device in ("eth0", "eth1"):
        cable(a, device, b, device)
    for number, host in ((1, a), (2, b)):
        made("-n", host, "addr", "add", f"10.7.0.{number}/24", "dev", "eth0")
        made("-n", host, "addr", "add", f"fd08::{number}/64", "dev", "eth1", "nodad")
    return "udp:10.7.0.1,udp:fd08::1", "udp:fd08::2,udp:10.7.0.2"


@case(gate=True)
def lists_of_both_families_in_unlike_order():
    """Of the four pairs of NICs two can't address each other, and both NICs of a host carry data all the same."""
    with hosts("a", "b") as (a, b):
        nics = dual_stack_lists(a, b)
        pass_with(start_ranks((a, b), "10.7.0.1:29400", "--json", "report", work=small_of_others("64"), nics=nics), "report",
                  [["udp:10.7.0.1", "udp:fd08::1"], ["udp:fd08::2", "udp:10.7.0.2"]])
        with open("report", encoding="utf-8") as file:
            report = json.load(file)
        for rank in report["ranks"]:
            check(rank["counters"]["paths_down"] == 0 and not rank["path_changes"], rank["path_changes"])
            for nic in rank["nics"]:
                check(nic["state"] == "UP" and nic["srtt_ns"] > 0, nic)
                check(nic["data_packets_sent"] > 0 and nic["packets_received"] > 0, nic)
        sent = [[nic["bytes_sent"] for nic in rank["nics"]] for rank in report["ranks"]]
        received = [[nic["bytes_received"] for nic in rank["nics"]] for rank in report["ranks"]]
        # No more than what was under way at the end: each family's NICs have only each other.
        for here in (0, 1):
            for nic in (0, 1):
                check(received[1 - here][1 - nic] <= sent[here][nic], f"{sent} sent, {received} received")


@case(gate=True)
def ranks_whose_named_nics_cannot_address_each_other_say_which_they_are():
    """A named NIC stays what it is, so these ranks agree on no family and learn of it when they connect."""
    with switched(("10.7.0.1/24",), ("fd07::2/64",)) as own:
        cable(own[0], "eth1", own[1], "eth1")
        for rank, host in enumerate(own):
            made("-n", host, "addr", "add", f"10.8.0.{rank + 1}/24", "dev", "eth1")
        names = ("udp:10.7.0.1", "udp:fd07::2")
        for rank, process in enumerate(start_ranks(own, "10.8.0.1:29400", "--timeout", str(HANG_LIMIT_S), nics=names)):
            status, output = finish(process)
            check(status == 2, f"{status}\n{output}")
            sentence = (rf"^hawser: rank {rank}: cannot connect to rank {1 - rank}: none of the NICs here can address one there\. "
                        rf"Here, .*{names[rank]} .*; there, .*{names[1 - rank]} .*`hawser info`.*--nic$")
            check(re.search(sentence, output, re.M), output)


@case(gate=True)
def loopback_has_both_families_too():
    for name, expected in (("udp:::1", "udp:::1"), ("udp:127.0.0.1", "udp:127.0.0.1")):
        with hosts("a") as (a,):
            ranks = start_ranks((a, a), "127.0.0.1:29400", "--json", "report", nics=("if:lo", name))
            pass_with(ranks, "report", [[expected], [expected]])


def link_local_of(host, device):
    """The link-local address of a device, once duplicate address detection has ended."""
    def found():
        text = ip("-n", host, "-6", "addr", "show", "dev", device, "scope", "link", "-tentative").stdout
        return re.search(r"inet6 (\S+)/", text)
    return wait_for(found, "a link-local address")[1]


@case(gate=True)
def a_host_of_link_local_addresses_alone_is_told_how_to_name_one():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        address = f"udp:{link_local_of(a, 'eth0')}%eth0"
        other = f"udp:{link_local_of(b, 'eth0')}%eth0"
        status, output = hawser(a, "info")
        check(status == 0 and "link-local one\n     together with its device, as in udp:fe80::1%eth0" in output, output)
        chosen = [line.split()[0] for line in output.splitlines() if " + chosen" in line]
        check(chosen == ["udp:127.0.0.1"], output)
        status, output = hawser(a, "info", "--nics", f"{address},{other}")
        check(status == 0 and re.search(rf"^  {address} +eth0 +\+ named", output, re.M), output)
        check(f"{other} is named, but is not a NIC of this host" in output, output)
        status, output = hawser(a, "run", *SMALL, "--nic", address)
        check(status == 0 and "ok: every byte" in output, f"{status}\n{output}")
        made("-n", a, "link", "set", "lo", "down")
        made("-n", a, "addr", "flush", "dev", "lo")
        status, output = hawser(a, "info")
        check(status == 0 and "  none\n  -> no other host reaches this one: " in output, output)
        check("no usable NIC" in output and "127.0.0.0/8" not in output, output)


def has_no_way(rank, address, output):
    told = (rf"^(hawser: )?rank {rank}: This host has no route to the rendezvous at {re.escape(address)}:\d+: "
            r"Network is (down|unreachable); check its interfaces \(is lo up\?\)")
    check(re.search(told, output, re.M), output)


@case(gate=True)
def ranks_without_a_way_to_the_rendezvous_wait_for_no_limit():
    """Where lo has been up, the kernel keeps its addresses, and drops packets to them without an error."""
    for has_been_up, other in ((False, "10.99.0.1"), (True, "10.7.0.1")):  # nobody's, and the host's own: by lo, too
        with hosts("a", "b", lo="down") as (a, b):
            if has_been_up:
                made("-n", a, "link", "set", "lo", "up")
                made("-n", a, "link", "set", "lo", "down")
            status, output = hawser(a, "run", *SMALL, "--timeout", str(HANG_LIMIT_S))
            check(status == 3, f"{status}\n{output}")
            for rank in (0, 1):
                has_no_way(rank, "127.0.0.1", output)
            cable(a, "eth0", b, "eth0")
            made("-n", a, "addr", "add", "10.7.0.1/24", "dev", "eth0")
            variables = ["HAWSER_RANK=1", "HAWSER_SIZE=2", f"HAWSER_RENDEZVOUS={other}:29400"]
            status, output = finish(start_process(["ip", "netns", "exec", a, "env", *variables, *COMMAND, "run",
                                                   *SMALL_OF_OTHERS, "--timeout", str(HANG_LIMIT_S)]))
            check(status == 3, f"{status}\n{output}")
            has_no_way(1, other, output)


@case
def a_rank_that_is_renumbered_takes_its_steps_and_gets_no_report():
    """The sessions follow to the new address, the rendezvous does not (docs/running.md)."""
    with hosts("a", "b") as (a, b):
        for net, device in ((7, "eth0"), (8, "eth1")):
            cable(a, device, b, device)
            made("-n", a, "addr", "add", f"10.{net}.0.1/24", "dev", device)
            made("-n", b, "addr", "add", f"10.{net}.0.2/24", "dev", device)
        ranks = []
        for rank, host in enumerate((a, b)):
            variables = [f"HAWSER_RANK={rank}", "HAWSER_SIZE=2", "HAWSER_RENDEZVOUS=10.7.0.1:29400"]
            ranks.append(start_process(
                ["ip", "netns", "exec", host, "env", *variables, *COMMAND, "run", "--nic", "if:eth*", "--timeout",
                 str(RENUMBERED_LIMIT_S), "--workload", "gpt2", "--scale", "512", "--steps", "2000"]))
        read_until(ranks[0], "% of the run")
        made("-n", b, "addr", "del", "10.7.0.2/24", "dev", "eth0")
        made("-n", b, "addr", "add", "10.7.0.3/24", "dev", "eth0")
        for rank in ranks:
            status, output = finish(rank)
            # The duration of the steps decides which limit comes first.
            ended_by_the_guard = status == 1 and "still runs 10 s after --timeout" in output
            waited_in_vain = status == 3
            check(ended_by_the_guard or waited_in_vain, f"{status}\n{output}")
            check("lost" not in output and "ok: every byte" not in output, output)


def firewall(host, *rule):
    """Drops what the rule matches, or skips the case where the kernel has no such firewall."""
    if shutil.which("iptables") is None:
        raise Skipped("no iptables here (Debian: iptables)")
    done = subprocess.run(["ip", "netns", "exec", host, "iptables", "-w", *rule, "-p", "udp", "-j", "DROP"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"iptables does not work here: {done.stderr.strip()}")


def two_cables(a, b):
    for net, device in ((7, "eth0"), (8, "eth1")):
        cable(a, device, b, device)
        made("-n", a, "addr", "add", f"10.{net}.0.1/24", "dev", device)
        made("-n", b, "addr", "add", f"10.{net}.0.2/24", "dev", device)


def one_way_job(place_rule, steps, meanwhile=False):
    """Two hosts x two NICs, where rank 0's second NIC is not heard. Returns the report."""
    with hosts("a", "b") as (a, b):
        two_cables(a, b)
        if not meanwhile:
            place_rule(a, b)
        begun = time.monotonic()
        ranks = start_ranks((a, b), "10.7.0.1:29400", "--json", "report", "--nic", "if:eth*",
                            work=["--workload", "gpt2", "--scale", "64", "--steps", str(steps)])
        if meanwhile:
            read_until(ranks[0], "% of the run")
            place_rule(a, b)
        pass_with(ranks, "report", [["udp:10.7.0.1", "udp:10.8.0.1"], ["udp:10.7.0.2", "udp:10.8.0.2"]])
        check(time.monotonic() - begun < ONE_WAY_LIMIT_S, f"{time.monotonic() - begun:.1f} s")
        with open("report", encoding="utf-8") as file:
            return json.load(file)


def check_one_way(report, from_the_start):
    """Rank 0 finds out that its packets by NIC 1 are lost, if any were, and blames no other NIC.

    The path from NIC 1 may come up again by the other cable, to the peer's NIC 0.
    """
    first, second = (rank["nics"] for rank in report["ranks"])
    changes = [change for rank in report["ranks"] for change in rank["path_changes"]]
    downs = [change for change in changes if change[0] == "down"]
    check(all(change[NIC_OF_CHANGE] == 1 for change in downs), f"{changes}")
    check(downs or from_the_start, "no path went down")
    for nic in (first[0], second[0]):  # a busy host loses a few packets in its own queues
        check(nic["packets_received"] > 0 and nic["packets_lost"] < 0.01 * nic["data_packets_sent"], str(nic))
    if from_the_start:
        check(second[1]["packets_received"] == 0, str(second[1]))
        check(first[1]["packets_received"] > 0, f"the way back is free: {first[1]}")


# A rule of OUTPUT makes the system refuse to send. A rule of INPUT loses packets, and nobody is told.
ONE_WAY_RULES = {"sender": lambda a, b: firewall(a, "-A", "OUTPUT", "-o", "eth1"),
                 "receiver": lambda a, b: firewall(b, "-A", "INPUT", "-i", "eth1")}


@case
def a_firewall_that_lets_nothing_out_by_one_nic_costs_only_that_nic():
    for rule in ONE_WAY_RULES.values():
        check_one_way(one_way_job(rule, 3), from_the_start=True)


@case
def a_firewall_that_comes_up_during_the_run_costs_only_that_nic():
    for rule in ONE_WAY_RULES.values():
        check_one_way(one_way_job(rule, 30, meanwhile=True), from_the_start=False)


@case
def a_route_that_narrows_during_a_run_shortens_the_packets_of_new_messages():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        made("-n", a, "addr", "add", "10.7.0.1/24", "dev", "eth0")
        made("-n", b, "addr", "add", "10.7.0.2/24", "dev", "eth0")
        for host, to in ((a, "10.7.0.2"), (b, "10.7.0.1")):
            made("-n", host, "route", "add", f"{to}/32", "dev", "eth0", "mtu", "1500")
        ranks = []
        for rank, host in enumerate((a, b)):
            variables = [f"HAWSER_RANK={rank}", "HAWSER_SIZE=2", "HAWSER_RENDEZVOUS=10.7.0.1:29400"]
            ranks.append(start_process(
                ["ip", "netns", "exec", host, "env", *variables, *COMMAND, "run", "--nic", "if:eth*",
                 *(["--json", "report"] if rank == 0 else []),
                 "--workload", "gpt2", "--scale", "512", "--steps", "60"]))
        read_until(ranks[0], "% of the run")
        for host, to in ((a, "10.7.0.2"), (b, "10.7.0.1")):
            made("-n", host, "route", "change", f"{to}/32", "dev", "eth0", "mtu", "1280")
        for rank in ranks:
            status, output = finish(rank)
            check(status == 0, f"{status}\n{output}")
        with open("report", encoding="utf-8") as file:
            report = json.load(file)
        # Those of MTU 1280, and those of MTU 1500.
        check(report["fragment_bytes"] == {"least": 1152, "most": 1152, "agreed": 1392}, report["fragment_bytes"])
        counters = report["counters"]
        check(counters["datagrams_fragmented"] * 10 < counters["data_packets_sent"], counters)


@case
def rank_0_waits_for_its_own_address_while_that_is_tentative():
    with hosts("a", "b") as (a, b):
        cable(a, "eth0", b, "eth0")
        made("-n", a, "addr", "add", "fd07::1/64", "dev", "eth0")
        rank = start_process(["ip", "netns", "exec", a, "env", "HAWSER_RANK=0", "HAWSER_SIZE=1",
                              "HAWSER_RENDEZVOUS=[fd07::1]:29400", *COMMAND, "run", *SMALL_OF_OTHERS])
        status, output = finish(rank)
        check(status == 0 and "no such address" not in output, f"{status}\n{output}")


if __name__ == "__main__":
    if os.path.sep in sys.argv[1]:
        sys.argv[1] = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as own_folder:
        os.chdir(own_folder)
        exit_status = run_harness.main()
        os.chdir("/")
    sys.exit(exit_status)
