# SPDX-License-Identifier: Apache-2.0
"""Cases of run_test.py: ranks that die, are stopped or are started again, and bad input."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from cases import (HANG_LIMIT_S, Skipped, all_children, all_of_session, case, check, finish, from_a_supervisor,
                   from_a_terminal, gone, is_gone, let_pass, read_until, start_process, time_left, wait_for)
from run_harness import (BY_DEFAULT, COMMAND, CSV, IMPATIENT, LONG, RUNNING, SMALL, SMALL_OF_OTHERS, TEXT, all_ranks, check_failure,
                         check_living_are_not_blamed, children, clog, free_port, full_pipe, patience, run, start,
                         udp_addresses_of)

SMALL_PLAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiments", "small.json")

# --- failures --------------------------------------------------------------------------------------

def run_in_which_one_dies(arguments, dead, survivors):
    status, output = finish(start(arguments))
    check_living_are_not_blamed(output, dead, survivors)
    check(status == 3, f"exit status {status}:\n{output}")
    return output


@case
def rank_kills_itself():
    output = run_in_which_one_dies(["--ranks", "5", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps",
                                    "4", "--kill-rank", "3@0.6", *IMPATIENT], 3, (0, 1, 2, 4))
    check("rank 3 was killed by SIGKILL" in output, output)
    check_failure(output, 3, (0, 1, 2, 4))


@case(gate=True)
def rank_killed_from_outside():
    process = start(LONG + BY_DEFAULT)
    ranks = all_ranks(process, 4)
    begun = read_until(process, RUNNING)
    os.kill(ranks[1], signal.SIGKILL)
    status, output = finish(process)
    output = begun + output
    check_living_are_not_blamed(output, 1, (0, 2, 3))
    check(status == 3, output)
    check_failure(output, 1, (0, 2, 3), HANG_LIMIT_S)
    check(gone(ranks.values()), "ranks are left behind")


@case
def rank_stopped_for_a_moment():
    process = start(["--ranks", "3", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps",
                     "20"])
    ranks = all_ranks(process, 3)
    os.kill(ranks[1], signal.SIGSTOP)
    output = read_until(process, "rank 1 is stopped")
    let_pass(1.5)  # far below peer_timeout
    os.kill(ranks[1], signal.SIGCONT)
    status, rest = finish(process)
    check(status == 0, output + rest)
    check("rank 1 continues" in rest, rest)


@case
def rank_stopped_for_too_long():
    process = start(LONG + ["--tunable", "peer_timeout_ms=1000"])
    ranks = all_ranks(process, 4)
    output = read_until(process, RUNNING)
    os.kill(ranks[2], signal.SIGSTOP)
    others = [pid for rank, pid in ranks.items() if rank != 2]
    wait_for(lambda: gone(others), "the others to give up")
    check(process.poll() is None, "the launcher did not wait for the stopped rank")
    os.kill(ranks[2], signal.SIGCONT)
    status, rest = finish(process)
    output += rest
    check_living_are_not_blamed(output, 2, (0, 1, 3))
    check(status == 3, output)
    check_failure(output, 2, (0, 1, 3))
    check(re.search(r"^rank 2: declared dead by other ranks", output, re.M),
          f"rank 2 does not report failure:\n{output}")


@case
def job_stopped_whole_41_times():
    """Each time for longer than peer_timeout, and at another place in the turns of its ranks."""
    process = start(LONG + ["--tunable", "peer_timeout_ms=1000"], start_new_session=True)
    ranks = all_ranks(process, 4)
    output = read_until(process, RUNNING)
    for stop in range(41):
        os.killpg(process.pid, signal.SIGSTOP)
        let_pass(1.2)
        os.killpg(process.pid, signal.SIGCONT)
        let_pass(0.05 + 0.0037 * stop)
        if process.poll() is not None:
            break
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    status, rest = finish(process)
    output += rest
    check(status == 130, f"{status} after stop {stop}\n{output}")
    check("declared dead" not in output and "peer_timeout" not in output, output)
    check(gone(ranks.values()), "ranks are left behind")


@case(gate=True)
def interrupted():
    process = start(LONG, start_new_session=True)
    ranks = all_ranks(process, 4)
    read_until(process, RUNNING)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group, too
    status, output = finish(process)
    check(status == 130, f"{status}\n{output}")
    check("ending all ranks" in output, output)
    check(not re.search(r"^ *\d+%", output.split("ending all ranks")[1], re.M),
          f"progress of a run that has been ended:\n{output}")
    check(gone(ranks.values()), "ranks are left behind")


@case
def launcher_killed():
    process = start(LONG)
    ranks = all_ranks(process, 4)
    read_until(process, RUNNING)
    process.kill()
    process.wait()
    wait_for(lambda: gone(ranks.values()), "the ranks to go with their launcher")


@case
def launcher_with_capabilities_killed():
    """As `setcap cap_net_raw+ep hawser` allows attacks: exec then forgets who ends with whom."""
    if os.geteuid() != 0 or not (shutil.which("setcap") and shutil.which("setpriv")):
        raise Skipped("takes root, setcap (Debian: libcap2-bin) and setpriv")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(COMMAND[0], folder)
        given = subprocess.run(["setcap", "cap_net_raw+ep", program], capture_output=True, text=True, check=False)
        if given.returncode != 0:
            raise Skipped(f"files here can't have capabilities: {given.stderr}")
        as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program]
        if subprocess.run([*as_nobody, "--version"], capture_output=True, check=False).returncode != 0:
            raise Skipped("the capability is not for programs here, or others can't read this folder")
        process = start_process([*as_nobody, "run", *LONG, "--attack", "garbage:100"])
        started = wait_for(lambda: (lambda found: found if len(found) == 5 else None)(
            all_children(process.pid)), "four ranks and an attacker", process)
        read_until(process, RUNNING)
        process.kill()
        process.wait()
        wait_for(lambda: gone(started), "ranks and attacker to go with their launcher")


@case
def not_in_time():
    for caller in (from_a_terminal, from_a_supervisor):
        process = start(LONG + ["--timeout", "3"], preexec_fn=caller, start_new_session=True)
        status, output = finish(process)
        check(status == 1 and "not finished within 3 s" in output, f"{status}\n{output}")
        # The report tells all the same what was done until then.
        check("not complete; " in output and "in step " in output, output)
        check("data packets: " in output and "RTT" in output and "ok: every byte" not in output, output)
        check(gone(all_of_session(process.pid)), "ranks are left behind")


@case
def a_launcher_whose_reader_has_paused_still_listens():
    process = start(LONG)
    ranks = all_ranks(process, 4)
    output = read_until(process, RUNNING)
    clog(f"/proc/{process.pid}/fd/1")
    process.terminate()
    wait_for(lambda: gone(ranks.values()), "the ranks to end")
    status, rest = finish(process)
    check(status == 130 and "ending all ranks" in rest, f"{status}\n{output}{rest}")


@case
def a_launcher_that_can_not_print_its_report_ends_on_a_signal():
    process = start(LONG)
    ranks = all_ranks(process, 4)
    read_until(process, RUNNING)
    clog(f"/proc/{process.pid}/fd/1")
    # The first one ends the ranks, and a later one the launcher, which now waits for its reader.
    wait_for(lambda: process.poll() is not None or process.terminate(), "the launcher to end")
    check(process.poll() == -signal.SIGTERM, f"{process.poll()}")
    check(gone(ranks.values()), "ranks are left behind")


@case
def a_launcher_that_can_not_end_is_ended_after_its_timeout():
    with tempfile.TemporaryDirectory() as folder, full_pipe(os.path.join(folder, "report")) as fifo:
        status, output = finish(start(SMALL + ["--timeout", "5", "--json", fifo]))
    check(status == 1 and "still runs 10 s after --timeout" in output, f"{status}\n{output}")


@case
def reports_of_ranks_wait_for_a_launcher_that_is_stopped():
    process = start(LONG)
    ranks = all_ranks(process, 4)
    output = read_until(process, RUNNING)
    process.send_signal(signal.SIGSTOP)
    for rank in ranks.values():
        clog(f"/proc/{rank}/fd/3")  # kReportFd
    for rank in ranks.values():
        os.kill(rank, signal.SIGTERM)
    wait_for(lambda: not any(udp_addresses_of(rank) for rank in ranks.values()), "the ranks to close")
    let_pass(6)
    check(not any(is_gone(rank) for rank in ranks.values()), "ranks have ended without their reports")
    process.send_signal(signal.SIGCONT)
    status, rest = finish(process)
    check(status == 3 and "no report" not in rest, f"{status}\n{output}{rest}")


# --- ranks that are started again ------------------------------------------------------------------

FOUR = ["--ranks", "4", "--nics", "2", "--workload", "gpt2", "--scale", "64", "--steps", "6"]


@case(gate=True)
def rank_started_again():
    for extra in ([], ["--threads", "1"], ["--loss", "0.02"]):
        output, report = run(FOUR + ["--restart-rank", "2@0.55", *extra])
        check(len(re.findall(r"^rank 2 was killed by SIGKILL, and is restarted$", output,
                             re.M)) == 1, output)
        for rank in (0, 1, 3):
            check(re.search(rf"^rank {rank}: .*rank 2: peer_\w+", output, re.M),
                  f"rank {rank} does not name rank 2:\n{output}")
        check(len(report["recoveries"]) == 1 and "step 4 was repeated" in report["recoveries"][0],
              output)
        told = [rank["recoveries"] for rank in report["ranks"]]
        check([len(list_) for list_ in told] == [1, 1, 0, 1], str(told))
        check([rank["life"] for rank in report["ranks"]] == [0, 0, 1, 0], output)
        check(all(row["n"] == 6 * 13 for row in report["collectives"]), output)


@case
def ranks_started_again_twice_and_together():
    output, report = run(FOUR + ["--restart-rank", "1@0.5", "--restart-rank", "3@0.5",
                                 "--restart-rank", "1@0.75", "--restart-rank", "0@0"])
    check([rank["life"] for rank in report["ranks"]] == [1, 2, 0, 1], output)


@case
def rank_started_again_among_groups_and_stages():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job")
        for text in (TEXT, CSV):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for when in ("0", "0.4", "0.5", "0.9"):
                run(["--ranks", "4", "--nics", "2", "--steps", "3", "--workload", path,
                     "--restart-rank", f"3@{when}"])


@case
def another_rank_dies_after_one_was_started_again():
    output = run_in_which_one_dies(FOUR + ["--restart-rank", "2@0.3", "--kill-rank", "1@0.7", *IMPATIENT], 1, (0, 2, 3))
    check("rank 2 was killed by SIGKILL, and is restarted" in output, output)
    check_failure(output, 1, (0, 2, 3))


@case
def rank_started_again_dies_at_once():
    process = start(LONG + IMPATIENT + ["--restart-rank", "2@0.0001"])
    ranks = all_ranks(process, 4)
    output = read_until(process, "and is restarted")
    again = wait_for(lambda: children(process.pid).get(2) not in (None, ranks[2]) and
                     children(process.pid)[2], "the new process")
    os.kill(again, signal.SIGKILL)
    status, rest = finish(process)
    output += rest
    check_living_are_not_blamed(output, 2, (0, 1, 3))
    check(status == 3, f"exit status {status}:\n{output}")
    for rank in (0, 1, 3):
        check(re.search(rf"^rank {rank}: .*[Rr]ank 2", output, re.M), f"rank {rank}:\n{output}")
    check(gone([*ranks.values(), again]), "ranks are left behind")


@case
def who_was_not_started_here_is_not_started_again():
    environment = dict(os.environ, HAWSER_RANK="0", HAWSER_SIZE="2",
                       HAWSER_RENDEZVOUS=f"127.0.0.1:{free_port()}")
    status, output = finish(start(["--restart-rank", "0@0.5"], env=environment))
    check(status == 2 and "--restart-rank works only with ranks that this command starts" in output, f"{status}\n{output}")


def joined(rank, size, port, arguments):
    """Starts a rank as another launcher would."""
    return start([*SMALL_OF_OTHERS, *arguments],
                 env=dict(os.environ, HAWSER_RANK=str(rank), HAWSER_SIZE=str(size),
                          HAWSER_RENDEZVOUS=f"127.0.0.1:{port}"))


# A pod's leftover variables say that this is a rank of a job, but the run was to start its own.
@case(gate=True)
def who_has_ranks_to_start_and_is_one_of_others_chooses():
    leftover = dict(os.environ, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    status, output = finish(start(SMALL, env=leftover))
    check(status == 2 and "--ranks 4 contradicts RANK and WORLD_SIZE: they make this process one of 1 ranks" in output, output)
    status, output = finish(start([*SMALL_OF_OTHERS, "--ranks", "1"], env=leftover))
    check(status == 0 and "rank 0 of 1, according to RANK and WORLD_SIZE" in output, output)


# A rank that waits for one that could not start learns why. If the server went with that rank, it
# learns where to look.
@case
def a_rank_that_cannot_start_is_no_riddle_to_others():
    bad = ["--nic", "udp:203.0.113.77"]  # TEST-NET-3
    for broken in (1, 0):
        port = free_port()
        ranks = [joined(rank, 2, port, bad if rank == broken else ["--timeout", str(HANG_LIMIT_S)])
                 for rank in (0, 1)]
        ends = [finish(rank) for rank in ranks]
        status, output = ends[broken]
        check(status == 2 and "203.0.113.77" in output, f"{status}\n{output}")
        status, output = ends[1 - broken]
        told = rf"hawser: rank {1 - broken}: Rank {broken} gave up: .*203\.0\.113\.77"
        if broken == 0:
            told += r"|No rendezvous answers .*; check the messages of the process that serves it"
        check(status == 3 and re.search(told, output), f"{status}\n{output}")


@case
def what_a_nic_of_ports_stands_for_is_in_the_help():
    status, output = finish(start(["--help"]))
    text = re.sub(r"\s+", " ", output)
    check(status == 0 and "word verbs alone stands for every usable RDMA port of the host" in text, output)


# --- bad input -------------------------------------------------------------------------------------


def refused(arguments, text, expected=2):
    output, _ = run(arguments, expected)
    check(re.search(text, output), f"no '{text}' in:\n{output}")


@case
def bad_workloads():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE lots 5\n")
        refused(["--workload", path],
                r"job.txt:3: the weight gradient's bytes must be a whole number, not 'lots'")
        with open(path, "w", encoding="utf-8") as file:
            file.write("DATA\n1\nlayer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 900000000000 5\n")
        refused(["--workload", path], r"8 ranks need [\d.]+ GB of memory .* are available; --scale")
    refused(["--workload", "gpt5"], "neither a file nor built in")
    refused(["--workload", "/proc/self/mem"], "cannot read the workload '/proc/self/mem': Input/output error")


@case(gate=True)
def bad_options():
    refused(["--loss", "2"], "^hawser: --loss 2 is not a probability")
    refused(["--kill-nic", "9@1/3"], "names NIC 9; NICs go from 0 to 3")
    refused(["--kill-nic", "2"], r"expected \[RANK.\]NIC@WHEN")
    refused(["--blackhole", "2@1/3:up"], r"expected \[RANK.\]NIC@WHEN\[:tx\|:rx\|:both\]")
    refused(["--attack", "noise"], "expected garbage, truncated, replay or forged")
    refused(["--ranks", "many"], "ranks")
    refused(["--nosuch"], "nosuch")
    refused(SMALL + ["--tunable", "peer_timeout_ms=0"], "takes 10 to 86400000")
    status, output = finish(start(SMALL + ["--json", "/nosuch/folder/report.json"]))
    check(status == 2 and "cannot write the report" in output, output)


@case
def unknown_subcommands():
    for word in ("bogus", "--bogus"):
        ended = subprocess.run([*COMMAND, word], stderr=subprocess.PIPE, text=True, check=False)
        check(ended.returncode == 2 and f"'{word}' is not a subcommand" in ended.stderr, ended.stderr)


@case
def traces_that_cannot_be_written():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "trace.3"))
        status, output = finish(start(SMALL + ["--trace", os.path.join(folder, "trace")]))
        # The run has not begun: not even its first line is there.
        check(status == 2 and re.fullmatch(r"hawser: --trace .*: cannot write '.*/trace\.3'\n",
                                           output), output)
        joined = dict(os.environ, HAWSER_RANK="3", HAWSER_SIZE="4",
                      HAWSER_RENDEZVOUS=f"127.0.0.1:{free_port()}")
        status, output = finish(start(SMALL + ["--trace", os.path.join(folder, "trace")], env=joined))
        check(status == 2 and "cannot write" in output, output)


def run_with_streams(arguments, closed=(), stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    """Runs to the end with some standard descriptors closed; returns (status, standard error)."""
    def close():
        for descriptor in closed:
            os.close(descriptor)
    done = subprocess.run([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                          text=True, check=False, timeout=time_left(), preexec_fn=close)
    return done.returncode, done.stderr


@case(gate=True)
def a_report_that_cannot_be_written_is_an_error():
    job = ["run", *patience(), *SMALL]
    with open("/dev/full", "w", encoding="utf-8") as full:
        for arguments in (["--version"], ["--help"], ["info"], ["run", "--help"], job, [*job, "--json", "-"]):
            status, told = run_with_streams(arguments, stdout=full)
            check(status == 2 and "cannot write to standard output: No space left" in told, f"{arguments}: {status} {told}")
        # A run that fails reports its own failure first.
        status, told = run_with_streams(["run", "--ranks", "many"], stdout=full)
        check(status == 2, f"{status} {told}")
        # Standard error is for people who may not be there.
        for arguments in ([*job, "--json", "-"], ["storm", "--seeds", "1..5", "--json", "-"]):
            status, _ = run_with_streams(arguments, stderr=full)
            check(status == 0, f"{arguments}: {status}")


@case(gate=True)
def a_report_goes_through_a_pipe():
    with tempfile.TemporaryDirectory() as folder:
        pipes = [os.path.join(folder, name) for name in ("report", "trace.0", "trace.1", "trace.2", "trace.3")]
        for pipe in pipes:
            os.mkfifo(pipe)
        # Into files: a reader that waited for this script would hold up its rank.
        readers = [start_process(["sh", "-c", 'exec cat "$0" > "$0.read"', pipe]) for pipe in pipes]
        status, output = finish(start([*SMALL, "--json", pipes[0], "--trace", os.path.join(folder, "trace")]))
        check(status == 0, f"{status}\n{output}")
        texts = []
        for pipe, reader in zip(pipes, readers):
            check(finish(reader) == (0, ""), pipe)
            with open(pipe + ".read", encoding="utf-8") as file:
                texts.append(file.read())
        check(json.loads(texts[0])["exit_code"] == 0, texts[0])
        for trace in texts[1:]:
            check(re.match("time_ns,", trace) and re.search(r"^# \d+ records, .*\n\Z", trace, re.M), trace[-999:])


# Nobody reads the pipe, which is too small for the report. Ctrl-C still ends the run.
@case(gate=True)
def a_report_that_nobody_reads_holds_nobody():
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "report")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        process = start([*SMALL, "--json", pipe])
        read_until(process, r"s in all$")
        process.send_signal(signal.SIGINT)
        status, output = finish(process)
        os.close(reader)
        check(status == -signal.SIGINT, f"{status}\n{output}")


@case
def a_failure_counts_more_than_a_report_that_cannot_be_written():
    for job, expected in ((SMALL, 2), ([*SMALL, "--kill-rank", "3@0.5", *IMPATIENT], 3), ([*LONG, "--timeout", "2"], 1)):
        status, output = finish(start([*job, "--json", "/dev/full"]))
        check(status == expected and "cannot write the report to '/dev/full'" in output, f"{job}: {status}\n{output}")


@case
def a_report_that_is_cut_short_leaves_the_older_one():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("older")
        os.symlink("/dev/full", path + ".part")
        status, output = finish(start([*SMALL, "--json", path]))
        check(status == 2 and f"cannot write the report to '{path}'" in output, f"{status}\n{output}")
        with open(path, encoding="utf-8") as file:
            check(file.read() == "older", "the older report is gone")
        check(os.listdir(folder) == ["report.json"], f"{os.listdir(folder)}")
        status, output = finish(start([*SMALL, "--json", path]))
        check(status == 0, f"{status}\n{output}")
        with open(path, encoding="utf-8") as file:
            check(json.load(file)["exit_code"] == 0, "the report")


@case(gate=True)
def a_parent_that_ignores_its_children_and_blocks_signals():
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (["run", *patience(), *SMALL], ["storm", "--seeds", "1..20"], ["sim", SMALL_PLAN, "--to", folder]):
            process = start_process([*COMMAND, *arguments], preexec_fn=from_a_supervisor, start_new_session=True)
            status, output = finish(process)
            check(status == 0, f"{arguments}: {status}\n{output}")
            check(gone(all_of_session(process.pid)), f"{arguments}: processes are left behind")
    process = start(LONG, preexec_fn=from_a_supervisor, start_new_session=True)
    read_until(process, RUNNING)
    process.terminate()
    status, output = finish(process)
    check(status == 130, f"{status}\n{output}")
    check(gone(all_of_session(process.pid)), "ranks are left behind")


# nohup ignores SIGHUP, and shells start background jobs with SIGINT ignored.
@case(gate=True)
def signals_that_the_caller_ignores_stay_ignored():
    def inherit():
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    job = ["run", *patience(), *SMALL[:-1], "40"]
    for arguments, numbers in ((job, (signal.SIGHUP, signal.SIGINT)), (["storm", "--seeds", "1..200"], (signal.SIGINT,))):
        process = start_process([*COMMAND, *arguments], preexec_fn=inherit)
        wait_for(lambda: all_children(process.pid), "ranks or storms", process)  # pylint: disable=cell-var-from-loop
        for number in numbers:
            process.send_signal(number)
        status, output = finish(process)
        check(status == 0, f"{arguments}: {status}\n{output}")
    process = start(LONG, preexec_fn=inherit)
    read_until(process, RUNNING)
    process.terminate()
    status, output = finish(process)
    check(status == 130, f"{status}\n{output}")


# Otherwise the rendezvous' socket would get the number of a closed descriptor, and the report.
@case(gate=True)
def descriptors_that_were_closed_are_nobody_elses():
    job = ["run", *patience(), *SMALL]
    status, told = run_with_streams(job, (0, 1))
    check(status == 2 and "cannot write to standard output: Bad file descriptor" in told, f"{status} {told}")
    status, _ = run_with_streams(job, (0, 2))
    check(status == 0, f"{status}")
    status, _ = run_with_streams(job, (0, 1, 2))
    check(status == 2, f"{status}")


@case
def addresses_that_do_not_exist():
    # TEST-NET-3 (RFC 5737) is on no host.
    refused(["--ranks", "2", "--nic", "udp:203.0.113.77"], r"203\.0\.113\.77")
    refused(["--ranks", "2", "--nic", "carrier-pigeon"], "carrier-pigeon")
    refused(["--ranks", "2", "--nic", "verbs:mlx5_99"],
            r"verbs:mlx5_99: this (host has no such RDMA device; it has|build has no RDMA verbs; install) ")
    refused(["--ranks", "2", "--nic", "verbs:"], "as in verbs:mlx5_0")
    refused(["--ranks", "2", "--nic", "verbs", "--nic", "udp:127.0.0.1"], "leave the other --nic out")


@case
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environment = dict(os.environ, HAWSER_RANK="0", HAWSER_SIZE="2",
                           HAWSER_RENDEZVOUS=f"127.0.0.1:{taken.getsockname()[1]}")
        status, output = finish(start(SMALL_OF_OTHERS, env=environment))
        check(status == 2 and "another program uses that port" in output, f"{status}\n{output}")


def info_text(env=None):
    return subprocess.run([*COMMAND, "info"], stdout=subprocess.PIPE, text=True, check=True, env=env).stdout


# With an RDMA port the run uses it (run_verbs.py). Without one it uses UDP, and first says so.
@case
def udp_where_there_is_no_rdma_port():
    output, _ = run(["--nic", "verbs", *SMALL])
    if re.search(r"^ +verbs:\S+ +up,", info_text(), re.M):
        check("UDP" not in output, output)
        return
    check(re.match(r"4 ranks x 2 NICs, .*\n--nic verbs: .*; UDP NICs are used instead\n", output), output)


@case(gate=True)
def info():
    output = info_text({**os.environ, "HAWSER_REORDER_PACKETS": "77"})
    for word in ("udp:127.0.0.1", "memlock", "rmem_max", "hugepages", "peer_timeout_ms",
                 "fragment_bytes", "command_budget",
                 "registration_cache_bytes", "registration cache"):
        check(word in output, f"no {word} in:\n{output}")
    check(re.search(r"reorder_packets +77 ", output), f"not the values in force:\n{output}")
