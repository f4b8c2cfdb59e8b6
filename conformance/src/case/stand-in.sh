# Plays the plugins that a plugin under test needs beside itself: cni-conformance-ipam an IPAM plugin, cni-conformance-link the plugins
# before a chained one, which connect the container to the bridge br9. Each writes down its calls; `fail.VERB` is the error of VERB.
folder=/run/conformance/stand-in
{ [ -d $folder/calls ] && [ -d $folder/given ]; } || mkdir -p $folder/calls $folder/given
# It is called many thousand times, so it starts few programs.
at=100
while [ -e $folder/calls/$at ] || ! mkdir $folder/calls/$at 2>/dev/null; do at=$((at + 1)); done
env >$folder/calls/$at/env
config=$(cat)
printf '%s\n' "$config" >$folder/calls/$at/stdin
if [ "$CNI_COMMAND" = VERSION ]; then
    echo '{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'
    exit 0
fi
echo 'the stand-in was here' >&2
if [ -e $folder/fail.$CNI_COMMAND ]; then
    cat $folder/fail.$CNI_COMMAND
    exit 1
fi
version=${config##*\"cniVersion\":}
version=${version#*\"}
version=${version%%\"*}
family=
if [ "$version" = 0.4.0 ]; then family='"version": "4", '; fi
own=$CNI_CONTAINERID.$CNI_IFNAME

# The next address that nobody has.
take() {
    number=5
    while [ -e $folder/given/$number ] || ! mkdir $folder/given/$number 2>/dev/null; do number=$((number + 1)); done
    echo "$own" >$folder/given/$number/owner
}

answer() {
    echo "$1" >"$folder/answer.$own"
    echo "$1"
}

case "${0##*/} $CNI_COMMAND" in
"cni-conformance-ipam ADD")
    take
    # Two default routes by one router would be one too many.
    routes='"routes": [{"dst": "0.0.0.0/0"}], '
    if [ "$CNI_IFNAME" != eth0 ]; then routes=; fi
    answer "{\"cniVersion\": \"$version\", \"ips\": [{$family\"address\": \"10.88.0.$number/24\", \"gateway\": \"10.88.0.1\"}], \
$routes\"dns\": {\"nameservers\": [\"10.88.0.53\"], \"search\": [\"example.org\"]}}"
    ;;
"cni-conformance-link ADD")
    # A plugin that is called again comes after the same ones.
    if cat "$folder/answer.$own" 2>/dev/null; then exit 0; fi
    take
    octet=$(printf %02x $number)
    if ! ip link show br9 >/dev/null 2>&1; then
        printf 'link add br9 address 02:00:00:00:00:01 type bridge\nlink set br9 up\naddress add 10.88.0.1/24 dev br9\n' |
            ip -batch - 2>/dev/null
    fi
    echo "link add veth9$number address 02:00:00:00:02:$octet type veth peer name $CNI_IFNAME address 02:00:00:00:01:$octet netns ${CNI_NETNS##*/}
link set veth9$number master br9 up" | ip -batch - || exit 1
    echo "link set $CNI_IFNAME up
address add 10.88.0.$number/24 dev $CNI_IFNAME
route add default via 10.88.0.1" | nsenter --net="$CNI_NETNS" ip -batch - || exit 1
    answer "{\"cniVersion\": \"$version\", \"interfaces\": [{\"name\": \"br9\", \"mac\": \"02:00:00:00:00:01\"}, \
{\"name\": \"veth9$number\", \"mac\": \"02:00:00:00:02:$octet\"}, \
{\"name\": \"$CNI_IFNAME\", \"mac\": \"02:00:00:00:01:$octet\", \"sandbox\": \"$CNI_NETNS\"}], \
\"ips\": [{$family\"interface\": 2, \"address\": \"10.88.0.$number/24\", \"gateway\": \"10.88.0.1\"}], \
\"routes\": [{\"dst\": \"0.0.0.0/0\", \"gw\": \"10.88.0.1\"}], \
\"dns\": {\"nameservers\": [\"10.88.0.53\"]}}"
    ;;
*" DEL")
    [ ! -e "$folder/answer.$own" ] || rm -f "$folder/answer.$own"
    for given in $folder/given/*; do
        owner=
        [ ! -e "$given/owner" ] || read -r owner <"$given/owner"
        if [ "$owner" = "$own" ]; then
            if [ "${0##*/}" = cni-conformance-link ]; then ip link del veth9${given##*/} 2>/dev/null; fi
            rm -r "$given"
        fi
    done
    ;;
esac
exit 0
