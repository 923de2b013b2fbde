#!/usr/bin/env python3
"""Writes the man pages of the commands and the completions of bash, zsh and fish from what `quire --help` says.

usage: generate.py QUIRE FOLDER [--check]

FOLDER is docs: man/quire-COMMAND.1, completion/quire.bash, completion/_quire and completion/quire.fish. With --check nothing is written;
a file that differs is an error.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

# What an option's value may be, for completion: a file, or one of a few words.
FILES = {"--svg", "--report", "--model", "config", "trace", "other"}
WORDS = {
    "--policy": ["auto", "vllm"],
    "--fit": ["length", "memory", "none"],
    "--state-mode": ["none", "align", "all"],
    "--compat": ["upstream"],
    "--kv-dtype": ["bf16", "fp16", "fp32", "fp8", "fp8_e5m2", "int8", "fp4", "fp8_per_token_head", "int8_per_token_head",
                   "int4_per_token_head"],
    "--driver": ["cpu", "cuda", "rocm", "auto", "none"],
    "--keep": ["every", "chunk-end", "prompt-end", "junction", "asked"],
    "--oracle": ["infinite", "lru", "clairvoyant", "marconi"],
    "--format": ["auto", "mooncake", "csv", "sharegpt", "vllm"],
}


def parse(text):
    """Description, usage, and lists of (name, value, text) of positionals, options and subcommands."""
    lines = text.splitlines()
    out = {"description": lines[0], "usage": "", "Positionals": [], "Options": [], "Subcommands": []}
    section = None
    for line in lines[1:]:
        if line.startswith("Usage: "):
            out["usage"] = line[len("Usage: "):]
        elif re.fullmatch(r"(Positionals|Options|Subcommands):", line):
            section = line[:-1]
        elif re.match(r"  \S", line) and section:
            match = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line)
            out[section].append([match.group(1), match.group(2) or ""])
        elif line.startswith("      ") and section:
            entry = out[section][-1]
            entry[1] = (entry[1] + " " + line.strip()).strip()
        elif line and not section and not out["usage"]:
            out["description"] += " " + line
        elif not line:
            section = None
    return out


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    lines = textwrap.wrap(text, 98, break_on_hyphens=False)
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in lines)


def man_page(version, date, command, help_):
    name = roff(command.replace(" ", "-"))
    out = [f'.TH QUIRE\\-{name.upper()} 1 {date} "quire {version}" "User Commands"', ".SH NAME",
           f"quire\\-{name} \\- {roff(help_['description'][0].lower() + help_['description'][1:])}", ".SH SYNOPSIS"]
    words = help_["usage"].split()
    before = words.index("[OPTIONS]")
    out += [f".B {' '.join(words[:before])}", ".RI [ options ] " + " ".join(f'" {roff(w)}"' for w in words[before + 1:])]
    for title in ("Positionals", "Options"):
        if not help_[title]:
            continue
        out.append(".SH " + ("ARGUMENTS" if title == "Positionals" else "OPTIONS"))
        for name, text in help_[title]:
            option, _, value = name.rpartition(" ") if name.startswith("-") and not name.split(", ")[-1].count(" ") == 0 else (name, "", "")
            out += [".TP", f".BI {roff(option).replace(' ', chr(92) + ' ')} \" {roff(value)}\"" if value else ".B " + roff(option), roff(text)]
    out += [".SH EXIT STATUS", "0 on success; 1 for an error, which a message on standard error describes; 2 for a command line",
            "that cannot be understood.", ".SH SEE ALSO", ".BR quire (1)"]
    return "\n".join(out) + "\n"


def long_options(help_):
    """(name, takes a value, text) of each option."""
    for name, text in help_["Options"]:
        last = name.split(", ")[-1]
        option, _, value = last.partition(" ")
        yield option, bool(value), text


def first_words(commands):
    """The words after quire, each with the words that may follow it: quire tier inspect."""
    words = {}
    for command in commands:
        first, _, second = command.partition(" ")
        words.setdefault(first, []).extend([second] if second else [])
    return words


def bash(commands):
    cases, values = [], {}
    seconds = "\n".join(f"""  if ((COMP_CWORD == 2)) && [[ ${{COMP_WORDS[1]}} == {first} ]]; then
    COMPREPLY=($(compgen -W "{' '.join(second)} --help" -- "$word"))
    return
  fi""" for first, second in first_words(commands).items() if second)
    for command, help_ in commands.items():
        cases.append(f"    {command.split()[0]}) options=\"{' '.join(o for o, _, _ in long_options(help_))}\" ;;")
        values.update({o: True for o, v, _ in long_options(help_) if v})
    plain = "|".join(sorted(o for o in values if o not in WORDS and o not in FILES))
    words = "\n".join(f"    {o}) COMPREPLY=($(compgen -W \"{' '.join(w)}\" -- \"$word\")); return ;;" for o, w in sorted(WORDS.items()) if o in values)
    files = "|".join(sorted(FILES & set(values)))
    return f"""# bash completion for quire(1). Generated from `quire --help`.
_quire() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} options
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{' '.join(first_words(commands))} --help --version" -- "$word"))
    return
  fi
{seconds}
  case $before in
{words}
    {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    {plain}) return ;;
  esac
  case ${{COMP_WORDS[1]}} in
{chr(10).join(cases)}
    *) return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _quire quire
"""


def zsh(commands):
    def quoted(text):
        return text.replace("'", "'\\''").replace("[", "(").replace("]", ")").replace(":", "\\:")

    out = ["#compdef quire", "# zsh completion for quire(1). Generated from `quire --help`.", "", "_quire() {", "  local -a commands", "  commands=("]
    out += [f"    '{c.split()[0]}:{quoted(h['description'])}'" for c, h in commands.items()]
    out += ["  )", "  if ((CURRENT == 2)); then", "    _describe command commands", "    return", "  fi", "  case $words[2] in"]
    for command, help_ in commands.items():
        first, _, second = command.partition(" ")
        out += [f"    {first})", "      shift words; ((CURRENT--))"]
        if second:
            out += [f"      if ((CURRENT == 2)); then compadd {second}; return; fi", "      shift words; ((CURRENT--))"]
        out.append("      _arguments \\")
        for option, takes, text in long_options(help_):
            value = ""
            if takes:
                value = ":value:" + (f"({' '.join(WORDS[option])})" if option in WORDS else "_files" if option in FILES else " ")
            out.append(f"        '{option}[{quoted(text)}]{value}' \\")
        out += ["        '*:file:_files'", "      ;;"]
    return "\n".join(out + ["  esac", "}", "", '_quire "$@"']) + "\n"


def fish(commands):
    def quoted(text):
        return text.replace("\\", "\\\\").replace("'", "\\'")

    out = ["# fish completion for quire(1). Generated from `quire --help`.", "complete -c quire -n __fish_use_subcommand -f"]
    for command, help_ in commands.items():
        command, _, second = command.partition(" ")
        out.append(f"complete -c quire -n __fish_use_subcommand -a {command} -d '{quoted(help_['description'])}'")
        if second:
            out.append(f"complete -c quire -n '__fish_seen_subcommand_from {command}' -a {second}")
        for option, takes, text in long_options(help_):
            value = "" if not takes else f" -x -a '{' '.join(WORDS[option])}'" if option in WORDS else " -r" if option in FILES else " -x"
            out.append(f"complete -c quire -n '__fish_seen_subcommand_from {command}' -l {option[2:]}{value} -d '{quoted(text)}'")
    return "\n".join(out) + "\n"


def main():
    quire, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    ask = lambda *arguments: subprocess.run([quire, *arguments], check=True, capture_output=True, text=True).stdout
    version = ".".join(ask("--version").split(".")[:2]).strip()
    date = re.match(r'\.TH QUIRE 1 (\S+)', (folder / "man/quire.1").read_text()).group(1)
    commands = {}
    for name, _ in parse(ask("--help"))["Subcommands"]:
        help_ = parse(ask(name, "--help"))
        if not help_["Subcommands"]:
            commands[name] = help_
        for second, _ in help_["Subcommands"]:
            commands[f"{name} {second}"] = parse(ask(name, second, "--help"))
    files = {f"man/quire-{name.replace(' ', '-')}.1": man_page(version, date, name, help_) for name, help_ in commands.items()}
    files |= {"completion/quire.bash": bash(commands), "completion/_quire": zsh(commands), "completion/quire.fish": fish(commands)}
    overview = (folder / "man/quire.1").read_text()
    wrong = [f"man/quire.1 does not name the command {name}" for name in commands if f"\n.B {name}\n" not in overview]
    for name, text in files.items():
        path = folder / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(f"{path} is not what `quire --help` says; run docs/man/generate.py QUIRE docs")
    print("\n".join(wrong) if wrong else f"{len(files)} files")
    return 1 if wrong else 0


sys.exit(main())
