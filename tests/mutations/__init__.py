"""Faults that somebody could make in the code, each tried in a copy: which tests fail because of it?"""
