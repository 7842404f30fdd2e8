"""Runs a broker in the foreground, without Docker."""

import signal
import sys
from pathlib import Path

import click

from deploy.broker.authority import Authority
from deploy.broker.jars import folder_of_jars
from deploy.broker.node import Broker
from deploy.broker.secure import TLS, Security
from streamfl.errors import UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0 draws a free one.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".kafka",
    show_default=True,
    help="The folder for jars, data and log.",
)
@click.option("--fresh", is_flag=True, help="Delete the data first.")
@click.option(
    "--secure", is_flag=True, help="Ask everyone for a log-in, over TLS: by password, or at PORT + 1 by certificate."
)
@click.option("--certificate", metavar="USER", help="Issue a user of a secure broker a certificate, and end.")
def main(port: int, folder: Path, fresh: bool, secure: bool, certificate: str | None) -> None:
    """Run Apache Kafka on 127.0.0.1 until Ctrl-C. Its data stay for the next run."""
    if certificate is not None:
        click.echo(Authority((folder / TLS).resolve()).issue(certificate))
        return
    # Both signals: a shell makes background processes ignore Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        _run(port, folder, fresh=fresh, secure=secure)
    except KeyboardInterrupt:
        click.echo("Stopped.")
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


def _run(port: int, folder: Path, *, fresh: bool, secure: bool) -> None:
    libs = folder / "libs"
    if not folder_of_jars(libs).is_dir():
        click.echo("Fetching Apache Kafka's jars, once ...", err=True)
    with Broker.start(folder, port, libs=libs, fresh=fresh, secure=secure) as broker:
        click.echo(f"Apache Kafka {broker.version} on {broker.bootstrap}; data in {broker.data}; stop with Ctrl-C")
        if broker.security is not None:
            click.echo(_how_to_log_in(broker.bootstrap, broker.security))
        broker.wait()


def _how_to_log_in(bootstrap: str, security: Security) -> str:
    return f"""\
With passwords, at {bootstrap}:
  security_protocol = "SASL_SSL"
  sasl_mechanism = "SCRAM-SHA-256"
  ssl_cafile = "{security.authority.certificate}"
With certificates, at {security.bootstrap}:
  security_protocol = "SSL"
  ssl_cafile = "{security.authority.certificate}"
  ssl_certfile = "..."   # python -m deploy.broker --certificate USER issues one
The super user is that of {security.properties}, and Kafka's tools are in {security.tools}:
  export PATH={security.tools}:$PATH ADMIN={security.properties}"""


if __name__ == "__main__":
    main()
