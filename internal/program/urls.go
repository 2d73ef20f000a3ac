package program

import (
	"net"
	"net/netip"
)

// maxURLs limits the addresses that are shown: a machine with containers has many.
const maxURLs = 4

// urlsOf is where a listener can be reached: at its own address, or if it listens at all
// of them, which no browser can open, at localhost and at those of this machine.
func urlsOf(at net.Addr, own []net.Addr) []string {
	where, err := netip.ParseAddrPort(at.String())
	if err != nil || !where.Addr().IsUnspecified() {
		return []string{"http://" + at.String()}
	}
	_, port, _ := net.SplitHostPort(at.String()) // ParseAddrPort has read it
	url := func(host string) string { return "http://" + net.JoinHostPort(host, port) }
	var four, six []string
	for _, a := range own {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if ip := prefix.Addr().Unmap(); ip.Is4() {
			four = append(four, url(ip.String()))
		} else {
			six = append(six, url(ip.String()))
		}
	}
	all := append([]string{url("localhost")}, append(four, six...)...)
	return all[:min(len(all), maxURLs)]
}
