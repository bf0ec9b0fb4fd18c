# SPDX-License-Identifier: Apache-2.0
"""Completion of ``kilonova`` commands in a shell: the scripts, and the words that they ask for."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, get_args

from kilonova.cli.application import COMMANDS, build

_GLOBAL_OPTIONS = ("--help", "--version")
#: Shell → script. The program is called as it was typed, so each environment completes its own commands.
SCRIPTS: Mapping[str, str] = {
    "bash": """\
_kilonova() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _kilonova kilonova
""",
    "zsh": """\
#compdef kilonova
_kilonova() {
    local -a found
    found=("${(@f)$("${words[1]}" completion-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found || _files
}
compdef _kilonova kilonova
""",
    "fish": """\
complete -c kilonova -a '(kilonova completion-words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


def candidates(words: Sequence[str]) -> list[str]:
    """Return what the last of ``words`` may become, given those before it. ``words``: without the program's name."""
    *before, current = words or [""]
    return sorted({each for each in _possible(before, current) if each.startswith(current)})


def _possible(before: Sequence[str], current: str) -> Iterator[str]:
    names = [name for commands in COMMANDS.values() for name in commands]
    if not before:
        yield from _GLOBAL_OPTIONS if current.startswith("-") else names
        return
    if before[0] not in names:
        return
    command: Any = build(before[0])
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    option = _awaiting(command, before[-1])
    if option is not None:
        yield from _choices(option)
    elif current.startswith("-"):
        yield "--help"
        for parameter in command.params:
            yield from (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    else:
        yield from getattr(command, "commands", {})
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                yield from _choices(parameter)


def _awaiting(command: Any, word: str) -> Any:
    """Return the option whose value follows ``word``; None if ``word`` is no option with a value."""
    for parameter in command.params:
        if word in parameter.opts and parameter.param_type_name == "option" and not parameter.is_flag:
            return parameter
    return None


def _choices(parameter: Any) -> Iterator[str]:
    """Yield the values of a parameter that has an enumeration as its type."""
    annotation = parameter.type_descriptor.annotation
    for kind in get_args(annotation) or (annotation,):
        if isinstance(kind, type) and issubclass(kind, Enum):
            yield from (str(each.value) for each in kind)
