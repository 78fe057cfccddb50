"""The command line of the test host tool."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence

from test_host import lifecycle, machine
from test_host.common import ToolError
from test_host.guest import Host, all_hosts, ssh_command
from test_host.rootfs import rootfs


def main(argv: Sequence[str]) -> int:
    """Run one command; return 0, or 1 after one line on stderr that says what is wrong and what to do."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except ToolError as error:
        print(f"host: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="host", description="A Debian host with rootless Podman, on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    command("install", _install, "install the packages that the tool needs and this machine hasn't")
    starting = command("up", _up, "boot a host and wait until ssh answers")
    starting.add_argument("name", type=_name)
    starting.add_argument("--address", help="10.203.77.N; default: the lowest free one")
    root = command("rootfs", _rootfs, "print the path of the root file system that hosts are copied from")
    for sub in (starting, root):
        sub.add_argument("--packages", type=_packages, default=(), help="more Debian packages for a new one, by commas")
    command("down", _down, "end a host and remove all of it").add_argument("name", type=_name)
    command("reboot", _reboot, "reboot a host and wait until it has started").add_argument("name", type=_name)
    shell = command("shell", _shell, "log in as root, or run a command as root")
    shell.add_argument("name", type=_name)
    shell.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    command("status", _status, "list the hosts, or one (exit 1 if it is not up)").add_argument(
        "name", type=_name, nargs="?"
    )
    return parser


def _name(text: str) -> str:
    """A host's name is also its hostname and part of a namespace's name."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no host name: use a-z, 0-9 and -, at most 40 characters")
    return text


def _packages(text: str) -> tuple[str, ...]:
    packages = tuple(word.strip() for word in text.split(",") if word.strip())
    for package in packages:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", package):
            raise argparse.ArgumentTypeError(f"{package!r} is no Debian package name")
    return packages


def _install(_: argparse.Namespace) -> None:
    machine.install()


def _up(arguments: argparse.Namespace) -> None:
    machine.require_ready()
    print(lifecycle.up(arguments.name, arguments.address, arguments.packages))


def _down(arguments: argparse.Namespace) -> None:
    machine.require_root()
    lifecycle.down(arguments.name)


def _reboot(arguments: argparse.Namespace) -> None:
    machine.require_root()
    lifecycle.reboot(arguments.name)


def _rootfs(arguments: argparse.Namespace) -> None:
    machine.require_ready()
    print(rootfs(arguments.packages))


def _shell(arguments: argparse.Namespace) -> None:
    address = Host(arguments.name).address
    if not address:
        raise ToolError(f"{arguments.name} doesn't exist: run `tools/test_host/host up {arguments.name}`")
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    # One word is a line for the host's shell; several are a command and its arguments, as they are.
    line = words if len(words) < 2 else [shlex.join(words)]
    command = [*ssh_command(address), *line]
    os.execvp(command[0], command)


def _status(arguments: argparse.Namespace) -> int:
    machine.require_root()
    hosts = [Host(arguments.name)] if arguments.name else all_hosts()
    rows = [("NAME", "ADDRESS", "STATE", "BOOT ID", "PID")]
    rows += [(host.name, host.address or "-", *lifecycle.status(host)) for host in hosts]
    for row in rows:
        print(f"{row[0]:<20} {row[1]:<15} {row[2]:<12} {row[3]:<36} {row[4]}")
    return int(bool(arguments.name) and rows[1][2] == "off")
