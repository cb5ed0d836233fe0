"""The embedders, a file each. `scrout.route.embed` is where they are asked for."""
