"""The table of counties with its columns standardised by hand, as users need not do."""


def standardised_by_hand(people):
    """The same table with numbers alone, each of standard deviation 1."""
    town = (people["region"] == "town").astype(float)
    numbers = people[["age", "income"]].assign(region=town)
    return people[["county", "vote"]].join((numbers - numbers.mean()) / numbers.std())
