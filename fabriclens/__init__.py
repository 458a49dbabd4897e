"""The program: command line, configuration, one tick, and the daemon that joins the parts."""

__version__ = "0.1.0"
