"""Secrets of a command line are not written: `***` stands in their place. `src/masking.rs` has the same rules."""

import re

MASK = "***"
SECRET = re.compile(
    r"(?i)(?:passw|passphrase|credential|secret|authoriz)|(?:key|keys|token)(?:[^a-z]|$)|(?:^|[^a-z])(?:auth|pass|pwd)(?:[^a-z]|$)"
)
"""Names of what is secret, of which `spelled` has made words."""
PLACE = re.compile(r"(?i)(?:file|path|dir)$")
"""Ends of names of what says only where a secret is."""
HUMP = re.compile(r"([a-z0-9])([A-Z])")
USER = re.compile(r"(://)[^/\s'\"@]+@")
QUOTED = r"\"[^\"]*\"|'[^']*'"
ASSIGNED = re.compile(r"([\w.+-]+)([\"']?\s*[:=]\s*)(" + QUOTED + r"|(?:(?i:bearer|basic|token)\s+)?[^\s&;,\"'{}]+)")
OPTION = re.compile(r"(-[\w-]+)(\s+)(" + QUOTED + r"|[^\s&;\"'-][^\s;\"']*)")


def masked_command(words):
    """Returns the words of a command line without its secrets."""
    masked, is_value = [], False
    for word in words:
        if is_value and not word.startswith("-"):
            masked.append(MASK)
            is_value = False
            continue
        is_value = word.startswith("-") and "=" not in word and is_secret(word)
        masked.append(masked_text(word))
    return masked


def masked_text(text):
    """Returns a text without users and passwords of URLs, and without values of variables and options that are secret."""
    text = USER.sub(r"\1" + MASK + "@", text)
    for pattern in (ASSIGNED, OPTION):
        text = pattern.sub(masked_value, text)
    return text


def masked_value(found):
    name, between, _ = found.groups()
    return name + between + MASK if is_secret(name) else found.group()


def is_secret(name):
    """Returns whether what has this name is to be masked, such as `--api-key` or `hfToken`."""
    spelled = HUMP.sub(r"\1_\2", name)
    return bool(SECRET.search(spelled)) and not PLACE.search(spelled)
