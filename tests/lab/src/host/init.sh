#!/bin/busybox sh
# The guest's first process: a cgroup v2 machine with nothing on it, then what the host asked for.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tracefs trace /sys/kernel/tracing
# As systemd mounts it.
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup /sys/fs/cgroup

# Built into some kernels: modprobe then fails, and nothing is amiss.
for module in $(cat "/lib/modules/$(uname -r)/load"); do modprobe "$module" 2>/dev/null; done

# One by one: a kernel that lacks a controller would refuse the whole line.
for controller in cpu memory io pids cpuset hugetlb; do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done

# Loopback is down in a new machine, and the agent answers there.
ip link set lo up
hostname isobar-guest

# The results' line must carry bytes as they are.
stty -F /dev/ttyS1 raw -echo 2>/dev/null
# So must the one on which a bystander answers, where there is one.
stty -F /dev/ttyS2 115200 raw -echo 2>/dev/null

if grep -q isobar.shell /proc/cmdline; then
    echo "isobar and lab are in /bin, scenarios in /scenarios. Leave with ctrl-d."
    setsid cttyhack sh
elif grep -q isobar.alive /proc/cmdline; then
    echo alive >/dev/ttyS1
else
    lab guest --scenarios /scenarios --results /dev/ttyS1
fi
sync
poweroff -f
