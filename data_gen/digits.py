"""Bags of handwritten digits, written to a file: ``python -m data_gen.digits --help``."""

import click

from bdr_stan.datasets import digits_bags
from data_gen import check_output, write_table


@click.command()
@click.option("--bags", "n_bags", type=click.IntRange(1), default=500, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--split", type=click.Choice(["train", "test"]), default="train", show_default=True)
@click.option("--max-size", type=click.IntRange(1), default=300, show_default=True)
@click.option("-o", "--output", required=True, help="File, .parquet, .csv or .npz.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def main(n_bags, seed, split, max_size, output, force):
    """Write bags of digit images as a long table: bag, label, x1 .. x64."""
    path = check_output(output, force)
    bags, y = digits_bags(n_bags, seed=seed, split=split, max_size=max_size)
    write_table(path, bags, y)
    click.echo(f"{path}: {len(bags)} bags, {len(bags.points)} points")


if __name__ == "__main__":
    main()
