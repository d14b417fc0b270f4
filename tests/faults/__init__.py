"""What the store does when the machine does not: kills, power cuts, full disks, damage, crowds.

Writers run as processes of their own (`writer`, with every step to the disk counted by `hooks`); whether what they
left behind is right is judged in one place, `checker`. Much of it is cheap and runs by default; everything runs with
`./dev test faults`. `campaign` fires at random, for as long as there is time.
"""
