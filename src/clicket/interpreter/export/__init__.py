"""Results as documents.

cells     a run as prose and blocks in the order of the task; both exports draw these
notebook  a Jupyter notebook
page      one self-contained HTML file
style     the page's CSS and content security policy
"""
