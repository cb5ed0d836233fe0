"""How well the files that a scout names fit the true ones."""
