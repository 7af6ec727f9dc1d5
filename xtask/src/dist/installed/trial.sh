# What is demanded of the package, from its installation to its purge.
fail() {
    echo "$*" >&2
    exit 1
}
quietly() {
    "$@" >/run/said 2>&1 </dev/null || fail "$* fails: $(tail -n 5 /run/said)"
}
# Nothing that is installed here already may be taken for the package's.
dpkg --purge isobar >/dev/null 2>&1 || true
rm -rf /etc/isobar /var/lib/isobar

quietly dpkg --install /run/old.deb
for file in usr/bin/isobar usr/lib/systemd/system/isobar.service etc/isobar/config.yaml \
    etc/isobar/environment usr/share/man/man1/isobar.1.gz usr/share/doc/isobar/copyright \
    usr/share/bash-completion/completions/isobar usr/share/zsh/vendor-completions/_isobar \
    usr/share/fish/vendor_completions.d/isobar.fish; do
    [ -s "/$file" ] || fail "/$file is not there"
done
if command -v systemd-analyze >/dev/null; then
    quietly systemd-analyze verify --man=no --recursive-errors=no isobar.service
    [ ! -s /run/said ] || fail "isobar.service: $(cat /run/said)"
fi

# What the operator wrote outlives an upgrade, and what was recorded a removal.
echo '# edited' >>/etc/isobar/config.yaml
mkdir -p /var/lib/isobar/recording
quietly dpkg --install /run/new.deb
version=$(dpkg-query --show --showformat '${Version}' isobar)
[ "$version" = "$(dpkg-deb --field /run/new.deb Version)" ] || fail "upgraded to $version"
grep -q '# edited' /etc/isobar/config.yaml || fail "an upgrade overwrites the configuration"
dpkg --listfiles isobar >/run/files

# As if systemd ran, which is told.
mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$@" >>/run/told\n' >/usr/bin/systemctl
chmod 755 /usr/bin/systemctl
told() {
    [ "$(cat /run/told)" = "$2" ] || fail "$1 tells systemd: $(cat /run/told)"
    rm /run/told
}
quietly dpkg --install /run/new.deb
told "an installation" "daemon-reload
daemon-reload
try-restart isobar.service"
quietly dpkg --remove isobar
told "a removal" "disable --now isobar.service
daemon-reload"
[ ! -e /usr/bin/isobar ] || fail "a removal leaves the program"
grep -q '# edited' /etc/isobar/config.yaml || fail "a removal takes the configuration"
[ -d /var/lib/isobar/recording ] || fail "a removal takes the recordings"
quietly dpkg --purge isobar
told "a purge" "daemon-reload"

while read -r path; do
    case $path in *isobar*) [ ! -e "$path" ] || fail "a purge leaves $path" ;; esac
done </run/files
for dir in /etc/isobar /var/lib/isobar; do
    [ ! -e "$dir" ] || fail "a purge leaves $dir"
done
