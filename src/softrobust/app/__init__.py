"""A page to work in: `softrobust app`. It calls the line of the command line, and computes nothing.

texts.py    every word of the page, by language
work.py     what the page asks for: a look at a file, and processes that solve it
pages.py    the steps as pages (NiceGUI)
server.py   who may see them: one address on this machine, one token, one folder
"""
