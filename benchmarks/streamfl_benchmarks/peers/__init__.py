"""Peers: the methods that streamfl is compared with, each as in its source, outside the federation protocol."""
