"""The viewer: sessions and outputs of one store in a browser, read only, on this machine.

`app` puts it together. The modules named `pages_*` and `output_*` have the pages, and export their `routes`. A page
asks the bag, and nothing behind it. Everything that comes from a tool is text: no template marks anything as safe, and
`guard` lets no script or style run that is not a file of ours. It needs the extra `view`.
"""
