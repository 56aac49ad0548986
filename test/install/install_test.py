#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the installation as users meet it: from a prefix, a moved prefix, and Debian packages.

Usage: install_test.py BUILD CASE     runs one case (ctest does)
       install_test.py BUILD          runs all
       install_test.py --list [gate|deep]     names them

BUILD is a build folder in which everything is built. Nothing is installed on this host. A case that
can't run here says why and returns 77.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tool"))
sys.path.insert(0, os.path.join(HERE, "..", "docs"))
# pylint: disable=wrong-import-position
from cases import Skipped, case, check, run_cases, start_process, time_left
from conversation import check_end, converse, run_ranks

ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGES = {
    "libhawser0": {"usr/lib/TRIPLET/libhawser.so.0", "usr/share/doc/libhawser0/copyright"},
    "libhawser-dev": {"usr/include/hawser/engine.hpp", "usr/include/hawser/hawser.h",
                      "usr/lib/TRIPLET/libhawser.so",
                      "usr/lib/TRIPLET/cmake/Hawser/HawserConfig.cmake",
                      "usr/lib/TRIPLET/pkgconfig/hawser.pc"},
    "hawser": {"usr/bin/hawser", "usr/share/man/man1/hawser.1.gz",
               "usr/share/doc/hawser/docs/installing.md",
               "usr/share/doc/hawser/docs/internals/protocol.md",
               "usr/share/doc/hawser/docs/lab/results.md"},
    "hawser-libfabric": {"usr/lib/TRIPLET/libfabric/libhawser-fi.so",
                         "usr/share/doc/hawser-libfabric/copyright"},
}


def environment(more=None):
    """That of this process, without what could find another Hawser."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}
    return kept | (more or {})


def call(*command, **options):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=time_left(),
                          check=False, env=environment(options.pop("more", None)), **options)
    output = done.stdout + done.stderr
    check(done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{output}")
    return output


def build():
    return os.path.abspath(sys.argv[1])


def install(prefix):
    call("cmake", "--install", build(), "--prefix", prefix)


def find(prefix, name):
    found = [os.path.join(folder, name) for folder, folders, files in os.walk(prefix)
             if name in files or name in folders]
    check(len(found) == 1, f"{len(found)} times {name} under {prefix}")
    return found[0]


def has_provider():
    return os.path.exists(os.path.join(build(), "plugin", "ofi", "provider", "libhawser-fi.so"))


def library_folder(prefix):
    return os.path.dirname(find(prefix, "libhawser.so.0"))


def run_examples(prefix, scratch):
    """Builds and runs a CMake project in C++ and, by pkg-config, a C program, from `prefix`."""
    folder = tempfile.mkdtemp(dir=scratch)
    call("cmake", "-S", os.path.join(HERE, "example"), "-B", folder, "-G", "Ninja",
         f"-DCMAKE_PREFIX_PATH={prefix}", f"-DEXAMPLE={find(prefix, 'example.cpp')}",
         f"-DRANKS={find(prefix, 'ranks.cpp')}")
    with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as file:
        check(f"Hawser_DIR:PATH={prefix}/" in file.read(), "another Hawser was found")
    call("cmake", "--build", folder)
    program = [os.path.join(folder, "example")]

    paths = {"PKG_CONFIG_PATH": os.path.dirname(find(prefix, "hawser.pc"))}
    flags = call("pkg-config", "--cflags", "--libs", "hawser", more=paths).split()
    def build_c(name):
        made = ["env", f"LD_LIBRARY_PATH={library_folder(prefix)}", os.path.join(folder, f"{name}_c")]
        call("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", find(prefix, f"{name}.c"), *flags, "-o", made[-1])
        return made

    in_c = build_c("example")
    converse(program, in_c, scratch, env=environment())
    converse(in_c, program, scratch, env=environment())
    run_ranks([[os.path.join(folder, "ranks")], build_c("ranks")], scratch, env=environment())


def show_provider(prefix):
    """Checks that libfabric finds the provider in `prefix`."""
    if not has_provider():
        return
    folder = os.path.dirname(find(prefix, "libhawser-fi.so"))
    check(os.path.basename(folder) == "libfabric", folder)
    if shutil.which("fi_info") is not None:
        output = call("fi_info", "-p", "hawser", more={"FI_PROVIDER_PATH": folder})
        check("provider: hawser" in output, output)


@case(gate=True)
def from_a_prefix_and_after_it_has_moved():
    with tempfile.TemporaryDirectory() as scratch:
        first, second = os.path.join(scratch, "first"), os.path.join(scratch, "deep", "er", "second")
        install(first)
        run_examples(first, scratch)
        os.makedirs(os.path.dirname(second))
        os.rename(first, second)
        run_examples(second, scratch)
        output = call(os.path.join(second, "bin", "hawser"), "run", "--ranks", "2", "--nics", "1",
                      "--scale", "1024", "--steps", "1")
        check("ok: every byte" in output, output)
        show_provider(second)
        for folder, _, files in os.walk(second):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                check(not text.startswith(b"\x7fELF") or b"RUNPATH" not in text, f"{name} has a path")
                check(first.encode() not in text, f"{name} names the first prefix")
                check(ROOT.encode() not in text, f"{name} names the source tree")


def terminals(page):
    """The blocks of commands of a page, as [commands, output that the page shows for them].

    A block of sh is what the reader types into one terminal. A block of text is the output of the
    last block of sh that has none yet.
    """
    found, silent = [], []
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", file.read(), re.M | re.S):
            if language == "sh":
                found.append([text, ""])
                silent.append(found[-1])
            elif language == "text":
                silent.pop()[1] = text
    return found


@case(gate=True)
def the_first_page_works_as_it_stands():
    # Each block has a terminal of its own. The home is an empty folder. The terminals begin in a
    # source tree in which all is built already, and whose setup.sh and build.sh do nothing. A
    # server runs beside the next block, and must end after it.
    with tempfile.TemporaryDirectory() as scratch:
        home, tree = os.path.join(scratch, "home"), os.path.join(scratch, "tree")
        os.mkdir(home)
        os.makedirs(os.path.join(tree, "build"))
        os.symlink(build(), os.path.join(tree, "build", "release"))
        for name in ("setup.sh", "build.sh"):
            os.symlink("/bin/true", os.path.join(tree, name))
        running, questions = [], 0
        for commands, shown in terminals("docs/start.md"):
            # With exec the terminal's process is the server itself, which a failed case can end.
            commands, serves = re.subn(r"^(?=\S+ serve )", "exec ", commands, flags=re.M)
            questions += " ask " in commands
            running.append((start_process(["bash", "-ec", commands], cwd=tree,
                                          env=environment({"HOME": home})), commands, shown))
            while running and not serves:
                check_end(*running.pop())
        check(questions and not running, f"{questions} questions; not ended: {running}")


def exported(library):
    return {line.split(" ", 2)[2].split("@")[0]
            for line in call("nm", "-DC", "--defined-only", library).splitlines()
            if not line.split(" ", 2)[2].startswith("HAWSER_")}


FUNCTION = re.compile(r"^(?:\[\[nodiscard\]\] )?(?!inline|constexpr|template|using|static)"
                      r"[\w:<>]+(?: [\w:<>]+)* (\w+)\([^;{]*\)(?: noexcept)?;", re.M)


def header_texts(prefix, suffix, comment):
    """The installed headers of a language, without their comments."""
    for header in glob.glob(os.path.join(prefix, "include", "hawser", "*" + suffix)):
        with open(header, encoding="utf-8") as file:
            yield re.sub(comment, "", file.read(), flags=re.S if suffix == ".h" else 0)


def declared_functions(prefix):
    """The functions of no class that the C++ headers declare and don't define."""
    return {f"hawser::{name}" for text in header_texts(prefix, ".hpp", r"//.*") for name in FUNCTION.findall(text)}


METHOD = re.compile(r"^  (?!.*\binline )(?:explicit |virtual |static |\[\[nodiscard\]\] )*(?:[\w:<>*&]+(?: const)?[ *&]+)*"
                    r"(?!HAWSER_)(~?\w+)\([^;{}]*\)(?: const)?(?: noexcept)?;", re.M)


def declared_methods(prefix):
    """The public methods that the C++ headers declare, and neither define nor leave to derived classes."""
    names = set()
    for text in header_texts(prefix, ".hpp", r"//.*"):
        namespace = re.search(r"^namespace ([\w:]+) {", text, re.M)
        for name, body in re.findall(r"^(?:class|struct) (\w+)[^;{]*{\n(.*?)^};", text, re.M | re.S):
            names |= {f"{namespace[1]}::{name}::{method}"
                      for method in METHOD.findall(body.partition("\n private:")[0])}
    return names


@case
def the_library_shows_the_api_alone():
    with tempfile.TemporaryDirectory() as scratch:
        install(scratch)
        library = find(scratch, "libhawser.so.0")
        symbols = exported(library)
        declared = set()
        for text in header_texts(scratch, ".h", r"/\*.*?\*/"):
            declared |= set(re.findall(r"\b(hawser_\w+)\([^)]*\);", text))
        shown = {name for name in symbols if name.startswith("hawser_")}
        check(shown == declared and len(shown) > 30, f"C: {sorted(shown ^ declared)}")
        rest = {re.sub(r"(\[abi:cxx11\])?\(.*", "", name) for name in symbols - shown}
        functions = declared_functions(scratch)
        methods = declared_methods(scratch)
        check(len(functions) > 6 and len(methods) > 30, f"C++: {sorted(functions | methods)}")
        check(rest == functions | methods |
                      {"typeinfo for hawser::Error", "typeinfo name for hawser::Error",
                       "vtable for hawser::Error", "typeinfo for hawser::NicChoiceError",
                       "typeinfo name for hawser::NicChoiceError",
                       "vtable for hawser::NicChoiceError", "typeinfo for hawser::Endpoint",
                       "typeinfo name for hawser::Endpoint"},
              f"C++: {sorted(rest ^ (functions | methods))}")
        needs = re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-d", library))
        check("libisal.so.2" in needs and not any("rte" in name for name in needs), str(needs))
        check("SONAME" in call("readelf", "-d", library), "no SONAME")
        for header in glob.glob(os.path.join(scratch, "include", "hawser", "*")):
            with open(header, encoding="utf-8") as file:
                check(not re.search(r'#\s*include\s*[<"](?!hawser/)[\w/]*(rte_|boost|sodium|/)', file.read()),
                      f"{header} needs somebody else's header")


@case
def what_it_throws_is_caught_and_it_may_be_loaded():
    with tempfile.TemporaryDirectory() as scratch:
        install(scratch)
        program, library = os.path.join(scratch, "errors"), find(scratch, "libhawser.so.0")
        flags = call("pkg-config", "--cflags", "--libs", "hawser",
                     more={"PKG_CONFIG_PATH": os.path.dirname(find(scratch, "hawser.pc"))}).split()
        call("c++", "-std=c++20", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-Wall", "-Wextra",
             "-Werror", os.path.join(HERE, "example", "errors.cpp"), *flags, "-o", program)
        output = call(program, more={"LD_LIBRARY_PATH": os.path.dirname(library)})
        check(output.startswith("caught: ") and "carrier-pigeon" in output, output)
        check("wrong: " in output and '"maim"' in output and "NICs: udp:" in output, output)
        output = call(sys.executable, "-c", "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); "
                      "library.hawser_status_name.restype = ctypes.c_char_p; "
                      "print(library.hawser_status_name(1).decode())", library)
        check(output == "again\n", output)
        check("NODELETE" in call("readelf", "-d", library), "it could be unloaded")


@case
def every_header_stands_alone():
    with tempfile.TemporaryDirectory() as scratch:
        install(scratch)
        headers = sorted(os.listdir(os.path.join(scratch, "include", "hawser")))
        check(len(headers) == len(os.listdir(os.path.join(ROOT, "include", "hawser"))), str(headers))
        for name in headers:
            language = ["c++", "-std=c++20"] if name.endswith(".hpp") else ["c", "-std=c99"]
            call("c++" if name.endswith(".hpp") else "cc", "-x", *language, "-fsyntax-only", "-Wall", "-Wextra",
                 "-Wpedantic", "-Werror", "-I", os.path.join(scratch, "include"), "-include",
                 f"hawser/{name}", "/dev/null")


@case
def an_older_version_is_not_taken_for_a_newer():
    with tempfile.TemporaryDirectory() as scratch:
        prefix, project = os.path.join(scratch, "prefix"), os.path.join(scratch, "project")
        install(prefix)
        os.mkdir(project)
        for wanted, found in (("0.1", True), ("0.2", False), ("0.0.9", False), ("1.0", False)):
            with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                # The project has C alone, so that C++20 can't be asked of it.
                file.write("cmake_minimum_required(VERSION 3.16)\nproject(User LANGUAGES C)\n"
                           f"find_package(Hawser {wanted} QUIET)\nmessage(STATUS \"found=${{Hawser_FOUND}}\")\n"
                           f"file(WRITE user.c \"int main(void) {{ return 0; }}\")\nadd_executable(user user.c)\n"
                           "if(Hawser_FOUND)\n  target_link_libraries(user Hawser::hawser)\nendif()\n")
            output = call("cmake", "-S", project, "-B", tempfile.mkdtemp(dir=scratch),
                          f"-DCMAKE_PREFIX_PATH={prefix}")
            check(f"found={int(found)}" in output, f"{wanted}: {output}")


def targets_of(page):
    """The targets that a page's own command lines build before it installs."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"\./build\.sh release ([\w -]+?) *(?:&&|\n)[^`]*?(?:cmake --install|cpack)", text)
    check(found, f"{page} builds nothing before it installs")
    return [words.split() for words in found]


def built_files_installed(folder):
    """The files that the installation takes from the build folder `folder`."""
    files = set()
    for script in glob.glob(os.path.join(folder, "**", "cmake_install.cmake"), recursive=True):
        with open(script, encoding="utf-8") as file:
            files.update(os.path.relpath(path, folder)
                         for path in re.findall(r'"(/[^"]+)"', file.read()) if path.startswith(folder + "/"))
    outputs = {line.split(":")[0] for line in call("ninja", "-C", folder, "-t", "targets", "all").splitlines()}
    return files & outputs


def check_what_is_built_first(folder, files):
    for page in ("README.md", "docs/start.md", "docs/installing.md"):
        for targets in targets_of(page):
            named = set(call("ninja", "-C", folder, "-t", "commands", *targets).split())
            check(files <= named, f"{page} installs what it doesn't build: {files - named}")


@case
def the_pages_build_what_they_install():
    files = built_files_installed(build())
    check({"libhawser.so.0.1.0", "tool/hawser"} <= files, str(files))
    check(any("libhawser-fi" in name for name in files) == has_provider(), str(files))
    check_what_is_built_first(build(), files)


@case
def without_libfabric_there_is_no_provider_to_install():
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "libfabric.pc"), "w", encoding="utf-8") as file:
            file.write("Name: libfabric\nDescription: too old\nVersion: 1.0\n")
        folder = os.path.join(scratch, "build")
        output = call("cmake", "--preset", "release", "-B", folder, "-S", ROOT,
                      "-DHAWSER_FOLDERS=include;proto;engine;coll;plugin;sim;tool",
                      more={"PKG_CONFIG_PATH": scratch})
        check("Left out: the libfabric provider" in output, output)
        files = built_files_installed(folder)
        check("tool/hawser" in files and not any("libhawser-fi" in name for name in files), str(files))
        check_what_is_built_first(folder, files)
        with open(os.path.join(folder, "CPackConfig.cmake"), encoding="utf-8") as file:
            check("hawser-libfabric" not in file.read(), "a package of nothing")


def make_packages(folder):
    """Builds the packages; returns their paths by name."""
    if shutil.which("dpkg-shlibdeps") is None or shutil.which("dpkg-deb") is None:
        raise Skipped("no dpkg-shlibdeps here (Debian: dpkg-dev)")
    call("cpack", "-G", "DEB", "--config", os.path.join(build(), "CPackConfig.cmake"), "-B", folder)
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(os.path.join(folder, "*.deb"))}


@case
def debian_packages():
    with tempfile.TemporaryDirectory() as scratch:
        packages = make_packages(os.path.join(scratch, "packages"))
        check(set(packages) == {name for name in PACKAGES if name != "hawser-libfabric" or has_provider()},
              str(packages))
        root = os.path.join(scratch, "root")
        for name, path in packages.items():
            fields = call("dpkg-deb", "--field", path)
            listed = [re.sub(r"^\./", "", line.split(None, 5)[5].split(" -> ")[0])
                      for line in call("dpkg-deb", "--contents", path).splitlines()]
            for wanted in PACKAGES.get(name, ()):
                check(any(re.fullmatch(wanted.replace("TRIPLET", "[^/]+"), entry) for entry in listed),
                      f"{name} has no {wanted}: {listed}")
            check(all(entry.startswith("usr/") or entry == "" for entry in listed), str(listed))
            check(all("root/root" in line for line in
                      call("dpkg-deb", "--contents", path).splitlines()), "others' files")
            check(f"usr/share/doc/{name}/copyright" in listed, f"{name} has no copyright file")
            check("rte" not in fields and "dpdk" not in fields, fields)
            call("dpkg-deb", "-x", path, root)
            with open(os.path.join(root, f"usr/share/doc/{name}/copyright"), encoding="utf-8") as file:
                check("\nLicense: Apache-2.0\n" in file.read(), f"the copyright file of {name} has no license")
        depends = {name: call("dpkg-deb", "--field", path, "Depends") for name, path in packages.items()}
        check("libisal2" in depends["libhawser0"] and "libstdc++6" in depends["libhawser0"], str(depends))
        check(re.search(r"libhawser0 \(= [\d.]+\)", depends["libhawser-dev"]), str(depends))
        check("libisal2" in depends["hawser"], str(depends))
        control = os.path.join(scratch, "control")
        call("dpkg-deb", "-e", packages["libhawser0"], control)
        with open(os.path.join(control, "shlibs"), encoding="utf-8") as file:
            check(file.read().startswith("libhawser 0 libhawser0 (>= "), "shlibs")
        with open(os.path.join(control, "triggers"), encoding="utf-8") as file:
            check("ldconfig" in file.read(), "triggers")
        run_examples(os.path.join(root, "usr"), scratch)
        show_provider(os.path.join(root, "usr"))
        output = call(os.path.join(root, "usr", "bin", "hawser"), "run", "--ranks", "2", "--nics", "1",
                      "--scale", "1024", "--steps", "1")
        check("ok: every byte" in output, output)


@case
def lintian_finds_nothing_that_is_not_known():
    if shutil.which("lintian") is None:
        raise Skipped("no lintian here")
    # cpack writes the calls of ldconfig itself, and can't leave them out. README.md, which is the
    # same file in every installation, links to the license.
    known = "maintscript-calls-ldconfig,extra-license-file"
    with tempfile.TemporaryDirectory() as scratch:
        packages = make_packages(scratch)
        output = call("lintian", "--fail-on", "none", "--suppress-tags", known, *sorted(packages.values()))
        found = [line for line in output.splitlines() if re.match(r"[EW]: ", line)]
        check(not found, "\n".join(found))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    return run_cases(sys.argv[1:] if sys.argv[1] == "--list" else sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
