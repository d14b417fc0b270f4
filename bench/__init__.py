"""Benchmarks of Holdall, run by `./dev bench NAME`. Each figure stands beside a floor taken in the same run."""
