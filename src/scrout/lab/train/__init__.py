"""What scrout learns from: training rows from commit history, and the gate that keeps benchmarks out of them."""
