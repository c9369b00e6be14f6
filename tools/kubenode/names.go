package main

import (
	"context"
	"net"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"golang.org/x/net/dns/dnsmessage"
)

const zone = ".svc.cluster.local."

// serveNames answers for NAME.NAMESPACE.svc.cluster.local. There is nothing else to be reached.
func (w *world) serveNames(ctx context.Context) error {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", w.listen)
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		conn.Close()
	}()
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := w.answer(buffer[:n]); err != nil {
				klog.ErrorS(err, "a question for a name isn't answered")
			} else if _, err := conn.WriteTo(answer, from); err != nil {
				klog.ErrorS(err, "an answer about a name isn't sent")
			}
		}
	}()
	return nil
}

func (w *world) answer(asked []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(asked); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative, m.RecursionAvailable = true, true, true
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	for _, q := range m.Questions {
		addresses, known := w.lookUp(strings.ToLower(q.Name.String()))
		if !known {
			m.RCode = dnsmessage.RCodeNameError
		}
		if q.Type != dnsmessage.TypeA {
			continue
		}
		for _, a := range addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	return m.Pack()
}

func (w *world) lookUp(name string) (addresses []netip.Addr, known bool) {
	of, ok := strings.CutSuffix(name, zone)
	parts := strings.Split(of, ".")
	if !ok || len(parts) < 2 {
		return nil, false
	}
	service, namespace := parts[len(parts)-2], parts[len(parts)-1]
	s, err := w.all.Core().V1().Services().Lister().Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	if a, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil {
		return []netip.Addr{a}, true
	}
	slices, err := w.all.Discovery().V1().EndpointSlices().Lister().EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, false
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if len(parts) > 2 && (e.Hostname == nil || *e.Hostname != parts[0]) {
				continue
			}
			for _, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
					addresses = append(addresses, a)
				}
			}
		}
	}
	return addresses, true
}
