# This machine as a Debian package finds it, beneath an overlay: nothing that is done there stays.
# $1: an empty directory; $2, $3: a package and the one that upgrades it.
set -eu
mount -t tmpfs none "$1"
root=$1/root
mkdir "$1/upper" "$1/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$root"
mount -t tmpfs none "$root/run"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
cp "$2" "$root/run/old.deb"
cp "$3" "$root/run/new.deb"
cat >"$root/run/trial.sh"
exec chroot "$root" /bin/sh -eu /run/trial.sh
