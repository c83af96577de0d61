"""Man pages and shell completions out of what the programs print for --help, so that there is one text.

    make_pages.py BIN_DIR OUT_DIR VERSION

Writes OUT_DIR/man1/*.1 and OUT_DIR/completions/{bash,zsh,fish}/*.
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^  ?(?:  )?(-{1,2}[A-Za-z][^\n]*?)(?:\s{2,}(\S.*))?$")
ITEM = re.compile(r"^  ([A-Za-z][\w-]*(?: [A-Z: ]+)?)\s{2,}(\S.*)$")


class Option:
    def __init__(self, left, text):
        self.left = left
        self.names = [name for name in re.split(r"[,\s]+", left) if re.fullmatch(r"--?[A-Za-z][\w-]*", name)]
        self.lines = [text]

    @property
    def text(self):
        """A table keeps its lines; other text flows."""
        is_table = any(re.search(r"\S {3,}\S", line) for line in self.lines)
        return ("\n" if is_table else " ").join(self.lines).strip()

    @property
    def takes_value(self):
        return bool(re.search(r"\s[A-Z]", self.left))


class Page:
    """One --help, read into its parts: lines are ("heading" | "usage" | "option" | "text" | "verbatim", ...)."""

    def __init__(self, name, help_text, about=None):
        self.name = name
        lines = help_text.rstrip().split("\n")
        first = re.match(rf"^{re.escape(name)} - (.*)$", lines[0])
        self.about = about or (first.group(1) if first else lines[0].rstrip("."))
        self.parts = self.read(lines[1:])

    def read(self, lines):
        parts, in_usage, takes_options = [], False, False
        for line in lines:
            if line.startswith("Usage:"):
                in_usage = True
                parts.append(["usage", line.removeprefix("Usage:").strip()])
                continue
            if in_usage and line.startswith("      "):
                parts.append(["usage", line.strip()])
                continue
            in_usage = False
            option = OPTION.match(line) if takes_options or line.startswith("  -") else None
            item = ITEM.match(line) if takes_options else None
            if re.match(r"^[A-Z][^\n]*:$", line) and not line.startswith(" "):
                takes_options = not line.startswith("Example")
                parts.append(["heading", line[:-1]])
            elif re.match(r"^[A-Z]\w+: \S", line) and line.split(":")[0] in ("Signals", "Exit status"):
                parts.append(["heading", line.split(":")[0]])
                parts.append(["text", line.split(":", 1)[1].strip()])
            elif option and takes_options:
                parts.append(["option", Option(option.group(1), option.group(2) or "")])
            elif item and takes_options:
                parts.append(["option", Option(item.group(1), item.group(2))])
            elif takes_options and line.startswith("        ") and parts and parts[-1][0] == "option":
                parts[-1][1].lines.append(line.strip())
            elif not line.strip():
                parts.append(["blank", ""])
            elif line.startswith(" "):
                parts.append(["verbatim", line])
            else:
                takes_options = False
                parts.append(["text", line])
        return parts

    def options(self):
        return [part[1] for part in self.parts if part[0] == "option" and part[1].names]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(page, version, see_also):
    out = [f'.TH "{page.name.upper().replace(" ", "-")}" 1 "" "cleffa {version}" "User Commands"', ".SH NAME",
           f"{roff(page.name.replace(' ', '-'))} \\- {roff(page.about[0].lower() + page.about[1:])}", ".SH SYNOPSIS", ".nf"]
    out += [roff(part[1]) for part in page.parts if part[0] == "usage"] or [roff(page.name)]
    out += [".fi", ".SH DESCRIPTION"]
    is_verbatim = False
    for kind, value in page.parts:
        if is_verbatim and kind not in ("verbatim", "blank"):
            out.append(".EE")
            is_verbatim = False
        if kind == "heading":
            out.append(f'.SH "{roff(value.upper())}"')
        elif kind == "option":
            out += [".TP", f".B {roff(value.left)}"]
            for line in value.text.split("\n"):
                out += [roff(line), ".br"] if "\n" in value.text else [roff(line)]
        elif kind == "verbatim":
            if not is_verbatim:
                out.append(".EX")
                is_verbatim = True
            out.append(roff(value))
        elif kind == "text":
            out.append(roff(value))
        elif kind == "blank":
            out.append("" if is_verbatim else ".PP")
    if is_verbatim:
        out.append(".EE")
    out += [".SH SEE ALSO", ",\n".join(f"{roff(name)}(1)" for name in see_also)]
    text = "\n".join(out) + "\n"
    # Empty paragraphs before headings say nothing.
    text = re.sub(r"(\.PP\n)+(?=\.(SH|TP|PP))", "", text)
    return re.sub(r"(\.SH [^\n]*\n)(\.PP\n)+", r"\1", text)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def first_sentence(text):
    return re.split(r"[.;(:\n]", text)[0].strip() or "option"


def bash_completion(program, pages, commands):
    options = {name: " ".join(sorted(n for o in page.options() for n in o.names)) for name, page in pages.items()}
    out = [f"# Completes {program}.", f"_{program.replace('-', '_')}() {{",
           "  local word=${COMP_WORDS[COMP_CWORD]} words=", "  COMPREPLY=()"]
    if commands:
        out += ["  local command= at", "  for ((at = 1; at < COMP_CWORD; at++)); do",
                "    if [[ ${COMP_WORDS[at]} != -* ]]; then command=${COMP_WORDS[at]}; break; fi", "  done",
                "  case $command in"]
        out += [f"    {command}) words={quoted(options[command])} ;;" for command in commands]
        out += [f"    *) words={quoted(options[''] + ' ' + ' '.join(commands))} ;;", "  esac"]
        if "fetch" in commands:
            out.append("  if [[ $command == fetch && $word != -* ]]; then words='clef-flash clef clef-omni'; fi")
    else:
        out.append(f"  words={quoted(options[''])}")
    only_options = "" if commands else "[[ $word == -* ]] && "
    out += [f"  {only_options}mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")",
            "  if [[ ${#COMPREPLY[@]} == 0 ]]; then mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); compopt -o filenames; fi",
            "}", f"complete -F _{program.replace('-', '_')} {program}", ""]
    return "\n".join(out)


def zsh_arguments(page):
    lines = []
    for option in page.options():
        text = first_sentence(option.text).replace("[", "(").replace("]", ")").replace(":", " ")
        for name in option.names:
            value = ":value:_files" if option.takes_value else ""
            lines.append(f"    {quoted(f'*{name}[{text}]{value}')} \\")
    return lines


def zsh_completion(program, pages, commands):
    out = [f"#compdef {program}", ""]
    if not commands:
        return "\n".join(out + ["_arguments -s \\", *zsh_arguments(pages[""]), "    '*:file:_files'", ""])
    out += ["local -a commands=(",
            *(f"  {quoted(command + ':' + first_sentence(pages[command].about))}" for command in commands), ")",
            "if (( CURRENT == 2 )) && [[ $PREFIX == -* ]]; then", "  _arguments -s \\", *zsh_arguments(pages[""]),
            "    '*:command:'", "  return", "fi",
            "if (( CURRENT == 2 )); then _describe command commands; return; fi", "case $words[2] in"]
    for command in commands:
        rest = "'*:model:(clef-flash clef clef-omni)'" if command == "fetch" else "'*:file:_files'"
        out += [f"  {command}) _arguments -s '1:command:' \\", *zsh_arguments(pages[command]), f"    {rest} ;;"]
    return "\n".join(out + ["  *) _files ;;", "esac", ""])


def fish_completion(program, pages, commands):
    out = []
    for command, page in pages.items():
        condition = ""
        if command:
            condition = f" -n {quoted('__fish_seen_subcommand_from ' + command)}"
            out.append(f"complete -c {program} -n __fish_use_subcommand -a {command} -d {quoted(first_sentence(page.about))}")
        for option in page.options():
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = " -r" if option.takes_value else ""
            out.append(f"complete -c {program}{condition} {names}{value} -d {quoted(first_sentence(option.text))}")
    if "fetch" in commands:
        out.append(f"complete -c {program} -n '__fish_seen_subcommand_from fetch' -a 'clef-flash clef clef-omni'")
    return "\n".join(out) + "\n"


def main():
    bin_dir, out_dir, version = sys.argv[1:]

    def help_of(*command):
        path = os.path.join(bin_dir, command[0])
        text = subprocess.run([path, *command[1:], "--help"], check=True, capture_output=True, text=True).stdout
        return text.replace(path, command[0])

    def write(path, text):
        path = os.path.join(out_dir, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    programs = {"clef": ["doctor"], "clef-server": [], "clef-tool": None, "clef-bench": None}
    everything = list(programs)
    for program, commands in programs.items():
        text = help_of(program)
        if commands is None:
            table = text.split("Subcommands:")[1]
            commands = re.findall(r"^  ([a-z]+)\s{2,}", table, re.MULTILINE)
        pages = {"": Page(program, text)}
        for command in commands:
            pages[command] = Page(f"{program} {command}", help_of(program, command))
            write(f"man1/{program}-{command}.1", man_page(pages[command], version, [program]))
        others = [name for name in everything if name != program] + [f"{program}-{c}" for c in commands]
        write(f"man1/{program}.1", man_page(pages[""], version, others))
        # clef's own command is rare: its options are those of the program.
        completed = [] if program == "clef" else commands
        shown = {"": pages[""]} if program == "clef" else pages
        write(f"completions/bash/{program}", bash_completion(program, shown, completed))
        write(f"completions/zsh/_{program}", zsh_completion(program, shown, completed))
        write(f"completions/fish/{program}.fish", fish_completion(program, shown, completed))


if __name__ == "__main__":
    main()
