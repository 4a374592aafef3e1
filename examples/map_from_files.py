"""From rasters and polygons on disk to maps on disk: rates at pixels, from cases of districts."""

import sys
from pathlib import Path

from sklearn.model_selection import train_test_split

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.datasets import country_files
from bdr_stan.kernels import map_kernel
from bdr_stan.maps import district_table, to_raster, write_map_page

quick = "--quick" in sys.argv
folder, maps = Path("country"), Path("maps")  # what there is, and what is written
if not folder.exists():
    country_files(folder, side=60 if quick else 220, n_districts=60 if quick else 300)

names = ["elevation", "rainfall", "vegetation", "travel_time"]
rasters = {name: folder / f"{name}.tif" for name in names}
districts = Bags.from_rasters(rasters, folder / "districts.gpkg", weight=folder / "population.tif")
cases = districts.metadata["cases"].to_numpy()

train, test, y, y_test = train_test_split(districts, cases, test_size=0.2, random_state=1)
kernel = map_kernel(names, ["x", "y"], n_functions=30 if quick else 300)
model = AggregateRegressor("negative_binomial", "exp", 5, kernel, thin=20)
model.fit(train, y, seed=1, **({"chains": 2, "warmup": 200, "draws": 200} if quick else {}))
predictive = model.predictive(test)
predicted = district_table(predictive, test, y_test)
print(predicted.drop(columns="geometry").head().round(1).to_string())
held = predicted["observed"].between(predicted["lower"], predicted["upper"]).mean()
print(f"districts held out: NLL {-predictive.log_prob(y_test).mean():.2f}, 95% cover {held:.0%}")

rates = to_raster(model.predict_points(districts), districts, exceedance=[0.1])
maps.mkdir(exist_ok=True)
rates.rio.to_raster(maps / "rates.tif")  # mean, sd, two quantiles and P(rate > 0.1)
table = district_table(model.predictive(districts), districts, cases)
table.reset_index().to_file(maps / "districts.gpkg")
write_map_page(maps / "rates.html", rates, table, label="cases per person", log=True)
ax = table.boundary.plot(ax=rates["mean"].plot(robust=True).axes, color="black", linewidth=0.4)
ax.figure.savefig(maps / "rates.png", dpi=150)
