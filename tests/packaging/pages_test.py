"""Man pages and completions say what --help says, and an installed tree is whole.

    pages_test.py BUILD_DIR SOURCE_DIR
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = map(os.path.abspath, sys.argv[1:3])
PAGES = os.path.join(BUILD, "pages")
COMMANDS = [("clef",), ("clef", "doctor"), ("clef-server",), ("clef-tool",), ("clef-tool", "fetch"), ("clef-tool", "convert"),
            ("clef-tool", "verify"), ("clef-tool", "inspect"), ("clef-bench",)]


def help_of(command):
    return subprocess.run([os.path.join(BUILD, "bin", command[0]), *command[1:], "--help"], check=True, capture_output=True,
                          text=True).stdout


def option_names(text):
    """The names at the start of option lines."""
    names = set()
    for line in text.split("\n"):
        match = re.match(r"^ {2,6}(-{1,2}[A-Za-z][^ ]*(?:, ?-{1,2}[A-Za-z][^ ]*)*)", line)
        if match:
            names.update(name for name in re.split(r"[, ]+", match.group(1)) if re.fullmatch(r"--?[A-Za-z][\w-]*", name))
    return names


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


class Pages(unittest.TestCase):
    def test_every_option_is_in_the_man_page(self):
        for command in COMMANDS:
            page = read(PAGES, "man1", "-".join(command) + ".1")
            names = option_names(help_of(command))
            self.assertTrue(names, command)
            for name in names:
                self.assertIn(name.replace("-", "\\-"), page, command)
            for section in (".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH SEE ALSO"):
                self.assertIn(section, page)
            self.assertNotIn(BUILD, page)

    def test_every_option_is_completed(self):
        for command in COMMANDS:
            if command == ("clef", "doctor"):
                continue
            program = command[0]
            shells = {"bash": read(PAGES, "completions/bash", program), "zsh": read(PAGES, "completions/zsh", "_" + program),
                      "fish": read(PAGES, "completions/fish", program + ".fish")}
            for name in option_names(help_of(command)):
                self.assertIn(name, shells["bash"], command)
                self.assertIn(name + "[", shells["zsh"], command)
                self.assertIn(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}", shells["fish"], command)

    def test_groff_finds_nothing_wrong(self):
        if shutil.which("groff") is None:
            self.skipTest("no groff")
        for name in sorted(os.listdir(os.path.join(PAGES, "man1"))):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=100n", os.path.join(PAGES, "man1", name)],
                                  capture_output=True, text=True)
            problems = [line for line in done.stderr.split("\n") if line and "adjust line" not in line]
            self.assertEqual(problems, [], name)

    def complete(self, *words):
        script = f"""
          compopt() {{ :; }}
          source {os.path.join(PAGES, "completions/bash", words[0])}
          COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
          _{words[0].replace("-", "_")}; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=SOURCE)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertIn("--state-file", self.complete("clef", "--sta"))
        self.assertEqual(self.complete("clef", "README.m"), ["README.md"])
        self.assertEqual(self.complete("clef-tool", "fet"), ["fetch"])
        self.assertEqual(sorted(self.complete("clef-tool", "fetch", "clef")), ["clef", "clef-flash", "clef-omni"])
        self.assertIn("--skip-download", self.complete("clef-tool", "fetch", "--s"))
        self.assertNotIn("--skip-download", self.complete("clef-tool", "inspect", "--"))

    def test_other_shells_read_their_files(self):
        for shell, check in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            if shutil.which(shell) is None:
                continue
            folder = os.path.join(PAGES, "completions", shell)
            for name in os.listdir(folder):
                subprocess.run([shell, *check, os.path.join(folder, name)], check=True)


class Install(unittest.TestCase):
    def prefix(self):
        return re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", read(BUILD, "CMakeCache.txt"), re.MULTILINE).group(1)

    def test_a_tree_of_its_own_is_whole(self):
        with tempfile.TemporaryDirectory() as root:
            # DESTDIR, not another prefix: the configuration's place is absolute, and must not be this machine's.
            subprocess.run(["cmake", "--install", BUILD], check=True, capture_output=True, env={**os.environ, "DESTDIR": root})
            tree = os.path.join(root, self.prefix().lstrip("/"))
            have = {os.path.relpath(os.path.join(folder, name), tree)
                    for folder, _, names in os.walk(tree) for name in names}
            for path in ("bin/clef", "bin/clef-server", "bin/clef-tool", "share/man/man1/clef.1",
                         "share/man/man1/clef-tool-fetch.1", "share/bash-completion/completions/clef",
                         "share/zsh/site-functions/_clef", "share/fish/vendor_completions.d/clef.fish",
                         "share/doc/cleffa/docs/install.md", "share/doc/cleffa/examples/requests.jsonl"):
                self.assertIn(path, have)
            done = subprocess.run([os.path.join(tree, "bin/clef"), "--version"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            if sys.platform == "linux":
                unit = read(tree, "lib/systemd/system/clef-server.service")
                started = re.search(r"^ExecStart=(\S+) --config (\S+)$", unit, re.MULTILINE)
                for path in started.groups():
                    self.assertTrue(os.path.exists(os.path.join(root, path.lstrip("/"))), path)

    def test_the_front_script_passes_its_arguments_on(self):
        with tempfile.TemporaryDirectory() as root:
            tool = os.path.join(root, "tool")
            with open(tool, "w") as file:
                file.write('#!/bin/sh\necho "$*"; echo "token=$HF_TOKEN"\n')
            os.chmod(tool, 0o755)

            def run(*arguments):
                return subprocess.run([os.path.join(SOURCE, "download_models.sh"), *arguments], capture_output=True, text=True,
                                      env={"PATH": os.environ["PATH"], "CLEF_TOOL": tool})

            self.assertEqual(run("clef-flash").stdout, "fetch clef-flash\ntoken=\n")
            self.assertEqual(run("clef", "--skip-download", "--dir", "a b").stdout, "fetch clef --skip-download --dir a b\ntoken=\n")
            self.assertEqual(run("clef", "--token", "hf_x").stdout, "fetch clef\ntoken=hf_x\n")
            self.assertEqual(len(run("all").stdout.split("\n")), 7)
            self.assertEqual(run("--help").returncode, 0)
            for wrong in ((), ("clef", "clef-flash"), ("nothing",), ("clef", "--wrong"), ("clef", "--token")):
                self.assertEqual(run(*wrong).returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
