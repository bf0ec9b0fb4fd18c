# SPDX-License-Identifier: Apache-2.0
"""The operator's policy files: search, parser, and checks for mistakes.

oslo.policy does not report such mistakes: it ignores unknown rules, and a rule with an unparsable check denies every
request.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_policy import opts, policy
from oslo_policy.policy import parse_file_contents

from kilonova.api.former_rules import FORMER, NOT_HERE
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

#: Default of ``[oslo_policy] policy_default_rule``: name of the rule that is applied instead of an undefined rule.
_DEFAULT = "default"
#: Attributes of the target that checks may use, such as ``%(project_id)s`` in ``project_id:%(project_id)s``.
OF_TARGETS = frozenset({"project_id", "user_id"})
_NAMED_OF_TARGETS = re.compile(r"%\((\w+(?:\.\w+)*)\)s")


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark about a rule in a policy file. ``is_harmless``: the rule needs no correction."""

    file: Path
    rule: str
    what: str
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.what}"


def register_options(conf: Any) -> None:
    """Register the options of ``[oslo_policy]``, which are needed before the first enforcer registers them."""
    opts.set_defaults(conf)


def use_file(conf: Any, file: Path) -> None:
    """Set ``[oslo_policy] policy_file`` to ``file``, overriding the configuration."""
    register_options(conf)
    conf.set_override("policy_file", str(file.absolute()), group="oslo_policy")


def files_of(conf: Any) -> tuple[Path, ...]:
    """Return the policy files in reading order: ``policy_file``, then the files of ``policy_dirs``."""
    main = conf.find_file(conf.oslo_policy.policy_file)
    found = [Path(main)] if main else []
    for name in conf.oslo_policy.policy_dirs:
        folder = conf.find_file(name)
        if folder and Path(folder).is_dir():
            found += sorted(each for each in Path(folder).iterdir() if each.is_file() and not each.name.startswith("."))
    return tuple(found)


def missing_file(conf: Any) -> str | None:
    """Return ``[oslo_policy] policy_file`` if the operator set it and the file does not exist; otherwise None."""
    location = conf.get_location("policy_file", "oslo_policy")
    if location is None or not location.location.is_user_controlled:
        return None
    name: str = conf.oslo_policy.policy_file
    return None if conf.find_file(name) else name


def stamp_of(files: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return path, modification time and size of each file: a value that changes if a file changes."""
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:  # the file was deleted after the folder was listed
            continue
        found.append((str(file), status.st_mtime_ns, status.st_size))
    return tuple(found)


def read_file(file: Path) -> Mapping[str, str]:
    """Return rule → check of one policy file. Raises: ConfigurationError naming the file."""
    try:
        said = parse_file_contents(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"Policy file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigurationError(f"Policy file {file} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(said, dict):
        raise ConfigurationError(f"Policy file {file} contains no rules; write one NAME: CHECK per line.")
    for name, check in said.items():
        if not isinstance(name, str) or not isinstance(check, (str, list)):
            raise ConfigurationError(f"Policy file {file}: {name}: a rule is NAME: CHECK, both strings.")
    return said


def findings(
    said: Sequence[tuple[Path, Mapping[str, str]]],
    known: Iterable[str],
    of_tokens: Iterable[str],
    default_rule: str = _DEFAULT,
) -> Iterator[Finding]:
    """Yield the mistakes in policy files.

    ``said``: each file with its rules. ``known``: names of all declared rules. ``of_tokens``: attributes of the caller
    that checks may use. ``default_rule``: ``[oslo_policy] policy_default_rule``.
    """
    rules = {name for _, content in said for name in content} | set(known)
    used = {wanted for _, content in said for check in content.values() for wanted in _referred(_parsed(check))}
    present = set(known)
    former = {was.name for was in FORMER.values()}
    for file, content in said:
        for name, text in content.items():
            if name in NOT_HERE:
                yield Finding(file, name, "a rule of Nova for a feature that Kilonova does not have", is_harmless=True)
            elif name not in present | former | used | {default_rule}:
                yield Finding(file, name, "no rule has this name, so it has no effect")
            elif name in former - present:
                now = ", ".join(sorted(new for new, was in FORMER.items() if was.name == name and new in present))
                what = f"the former name of {now}" if now else "the former name of rules for features not in Kilonova"
                yield Finding(file, name, what, is_harmless=True)
            yield from (Finding(file, name, what) for what in _errors(text, rules, set(of_tokens)))


def _errors(text: Any, rules: set[str], of_tokens: set[str]) -> Iterator[str]:
    check = _parsed(text)
    if _is_refusal(check) and str(text).strip("() \n") != "!":
        yield f"the check {text!r} cannot be parsed, so it denies every request"
    for wanted in sorted(set(_referred(check)) - rules):
        yield f"it refers to rule:{wanted}, which is not defined"
    for part in _leaves(check):
        kind, match = getattr(part, "kind", ""), str(getattr(part, "match", ""))
        if type(part).__name__ == "GenericCheck" and not _is_literal(kind) and kind.split(".")[0] not in of_tokens:
            yield f"{part}: callers have no attribute {kind!r}, so the check never passes"
        for name in _NAMED_OF_TARGETS.findall(match):
            if name not in OF_TARGETS:
                yield f"{part}: targets have no attribute {name!r}, so the check never passes"


def _parsed(text: Any) -> Any:
    """Parse a check with oslo.policy, which returns a FalseCheck if the text is invalid."""
    return policy.RuleDefault("check", text).check


def _is_refusal(check: Any) -> bool:
    return type(check).__name__ == "FalseCheck"


def _is_literal(kind: str) -> bool:
    try:
        ast.literal_eval(kind)
    except (ValueError, SyntaxError):
        return False
    return True


def _leaves(check: Any) -> Iterator[Any]:
    """Split a check at ``and``, ``or`` and ``not``, and yield the elementary checks."""
    waiting = [check]
    for each in waiting:
        inner = [*getattr(each, "rules", ()), *([each.rule] if hasattr(each, "rule") else [])]
        waiting += inner
        if not inner:
            yield each


def _referred(check: Any) -> Iterator[str]:
    """Yield the names of the rules that a check refers to."""
    return (str(each.match) for each in _leaves(check) if type(each).__name__ == "RuleCheck")


def require_no_circle(rules: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if rules refer to each other in a cycle, because their evaluation would never end."""
    left = {name: set(_referred(check)) for name, check in rules.items()}
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    if left:
        names = ", ".join(sorted(left))
        raise ConfigurationError(f"Policy: a rule refers to itself, directly or through other rules; check {names}.")
