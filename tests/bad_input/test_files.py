"""Files of fits and data, and Stan programs, that cannot be used."""

from copy import copy

from builders.mistakes import BAGS, FITTED, POINTS, RNG, Y, check_call, mistakes
from sklearn.base import clone
from sklearn.model_selection import KFold

import bdr_stan
from bdr_stan import BDR, datasets
from bdr_stan.cmdstan.programs import compile_program, eject
from data_gen.bag_sizes import negative_binomial_sizes
from experiments import paper_data

FILES = [
    ("no digits", lambda: datasets.digits_bags(0, seed=1), "n_bags"),
    ("a text of digits", lambda: datasets.digits_bags("a", seed=1), "n_bags"),
    ("digits of size 0", lambda: datasets.digits_bags(3, seed=1, max_size=0), "max_size"),
    ("digits of no such half", lambda: datasets.digits_bags(3, seed=1, split="all"), "all"),
    ("digits of a seed of text", lambda: datasets.digits_bags(3, seed="a"), "seed"),
    ("faces that are not there", lambda: paper_data.load_faces("no.npy", [0], [1]), "no.npy"),
    ("faces of another kind", lambda: paper_data.load_faces("table.csv", [0], [1]), "table.csv"),
    ("elevators that are not there", lambda: paper_data.load_elevators("no.npz"), "no.npz"),
    ("elevators of another kind", lambda: paper_data.load_elevators("table.csv"), "table.csv"),
    ("aerosol that is not there", lambda: paper_data.load_misr1("no.mat"), "no.mat"),
    ("aerosol of another kind", lambda: paper_data.load_misr1("table.parquet"), "table.parquet"),
    ("elevators in no path", lambda: paper_data.load_elevators(None), "path"),
    ("sizes of no distribution",
     lambda: negative_binomial_sizes(RNG, 5, 10, 1), "mean 10"),
    ("sizes of a mean of text",
     lambda: negative_binomial_sizes(RNG, 5, "a", 1), "mean 'a'"),
    ("a split of one row",
     lambda: paper_data.aggregate_splits(POINTS[:1], Y[:1], ["x", "z"], by="x", seed=1), "rows"),
    ("a split by no such column",
     lambda: paper_data.aggregate_splits(POINTS, POINTS[:, 0], ["x", "z"], by="age", seed=1),
     "age"),
    ("nested splits of no bags", lambda: paper_data.nested_split(0, seed=1), "n_bags"),
    ("nested splits of a share of 2", lambda: paper_data.nested_split(9, seed=1, test=2), "test"),
    ("a fit that is not there", lambda: bdr_stan.load("no.nc"), "no.nc"),
    ("a fit that is a folder", lambda: bdr_stan.load("folder"), "folder"),
    ("a fit below a file", lambda: bdr_stan.load("fit.nc/x.nc"), "fit.nc/x.nc"),
    ("a fit by number", lambda: bdr_stan.load(3), "path"),
    ("a fit cut short", lambda: bdr_stan.load("short.nc"), "short.nc"),
    ("a fit that is empty", lambda: bdr_stan.load("empty.nc"), "empty.nc"),
    ("a fit that is text", lambda: bdr_stan.load("text.nc"), "text.nc"),
    ("a NetCDF file of something else", lambda: bdr_stan.load("other.nc"), "other.nc"),
    ("a fit without a variable", lambda: bdr_stan.load("lacking.nc"), ["lacking.nc", "beta"]),
    ("a fit without a group", lambda: bdr_stan.load("halved.nc"), ["halved.nc", "posterior"]),
    ("a fit of damaged bytes", lambda: bdr_stan.load("garbled.nc"), "garbled.nc"),
    ("a fit of no configuration", lambda: bdr_stan.load("bare.nc"), "bare.nc"),
    ("a fit of a configuration of text", lambda: bdr_stan.load("words.nc"), "words.nc"),
    ("a fit of no such estimator", lambda: bdr_stan.load("unknown.nc"), "unknown.nc"),
    ("another estimator's fit", lambda: BDR.load("fit.nc"), "BLR"),
    ("a fit saved below a file", lambda: FITTED.save("fit.nc/x.nc"), "fit.nc"),
    ("a fit saved in no folder", lambda: FITTED.save("nowhere/x.nc"), "nowhere"),
    ("a fit saved as a folder", lambda: FITTED.save("folder"), "folder"),
    ("a fit saved by number", lambda: FITTED.save(3), "path"),
    ("notes of text", lambda: FITTED.save("new.nc", notes="mine"), "notes"),
    ("notes of objects", lambda: FITTED.save("new.nc", notes={"a": object()}), "notes"),
    ("a splitter in a file",
     lambda: copy(FITTED).set_params(prior=KFold(3)).save("new.nc"), "prior"),
    ("the program of somebody else's fit",
     lambda: bdr_stan.load("own.nc").fit(BAGS, Y), ["stan_file", "own.nc"]),
    ("a clone of somebody else's fit",
     lambda: clone(bdr_stan.load("own.nc")).fit(BAGS, Y), ["stan_file", "own.nc"]),
]  # fmt: skip


STAN = [
    ("a program ejected to nowhere", lambda: eject("bdr", None), "target"),
    ("an unknown program", lambda: compile_program("bdx"), "bdx"),
    ("a program that is not there", lambda: compile_program("mine.stan"), "mine.stan"),
    ("a program below a file", lambda: compile_program("table.csv/mine.stan"), "mine.stan"),
    ("a program by number", lambda: compile_program(3), "program"),
    ("no program", lambda: compile_program(None), "program"),
    ("a program without a name", lambda: compile_program(""), "''"),
    ("an unknown program to eject", lambda: eject("bdx", "new.stan"), "bdx"),
    ("a program ejected over another", lambda: eject("bdr", "taken.stan"), "taken.stan"),
    ("a program ejected below a file", lambda: eject("bdr", "table.csv/bdr.stan"), "table.csv"),
]


@mistakes(FILES)
def test_files(call, words):
    check_call(call, words)


@mistakes(STAN)
def test_stan_programs(call, words):
    check_call(call, words)
