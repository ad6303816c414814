"""The command that serves the HTTP API and the live status page."""

from contextlib import suppress
from pathlib import Path

import click
from rich.markup import escape

from crawl_pipeline.commands.common import command, out, policy_file, policy_of


@command()
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--token-file", type=click.Path(dir_okay=False, path_type=Path), envvar="CRAWL_API_TOKENS",
              help="Lines `NAME TOKEN` (default: ~/.config/crawl/api-tokens, made with one if there is none); "
                   "$CRAWL_API_TOKEN instead is one token, of $CRAWL_API_NAME.")  # fmt: skip
@click.option(
    "--name", "names", multiple=True, help="Another name by which clients call this server, such as a proxy's."
)
@click.option("--open-to-network", is_flag=True, help="Listen on an address that is not loopback, without TLS.")
@policy_file
def serve(
    lake: str, address: str, port: int, token_file: Path | None, names: tuple[str, ...], policy_path: Path | None, *,
    open_to_network: bool,
) -> None:  # fmt: skip
    """Serve the HTTP API and the live status page until Ctrl-C."""
    from crawl_pipeline.api import serving
    from crawl_pipeline.api.tokens import TokenError

    policy_of(lake, policy_path)
    try:
        listening = serving.listen(serving.Where(address, port, open_to_network))
        known = serving.tokens(token_file, lambda said: out.print(escape(said)))
    except (serving.ServeError, TokenError) as error:
        raise click.ClickException(str(error)) from error
    with listening:
        server = serving.server(lake, lambda: policy_of(lake, policy_path), known, names)
        shown = f"[{address}]" if ":" in address else address
        out.print(escape(f"listening on http://{shown}:{listening.getsockname()[1]}/ (status page) and /api/v1/"))
        with suppress(KeyboardInterrupt):  # the server has ended in order, and hands the signal on
            server.run(sockets=[listening])
    out.print("stopped")
