"""The embedders, one file each. Open them with `scrout.route.embed`."""
