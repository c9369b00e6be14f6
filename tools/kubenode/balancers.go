package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// bringBalancers gives each Service that asks for one an address, and leads the address to a node that has a Pod of it.
func (w *world) bringBalancers(ctx context.Context) error {
	services, err := w.all.Core().V1().Services().Lister().List(everything())
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, s := range services {
		used[addressOf(s)] = true
	}
	var errs []error
	for _, s := range services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil {
			continue
		}
		if addressOf(s) == "" {
			errs = append(errs, failed("give an address to", s.Name, w.giveAddress(ctx, s, used)))
			continue
		}
		errs = append(errs, failed("lead to", s.Name, w.lead(ctx, s)))
	}
	return errors.Join(errs...)
}

func addressOf(s *corev1.Service) string {
	for _, i := range s.Status.LoadBalancer.Ingress {
		return i.IP
	}
	return ""
}

func (w *world) giveAddress(ctx context.Context, s *corev1.Service, used map[string]bool) error {
	for i := 1; i < 255; i++ {
		address := fmt.Sprintf("%s.%d", w.balancers, i)
		if used[address] {
			continue
		}
		used[address] = true
		s = s.DeepCopy()
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		_, err := w.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
		return err
	}
	return errors.New("all addresses are taken")
}

// led is where each address was led to last.
var led = map[string]string{}

func (w *world) lead(ctx context.Context, s *corev1.Service) error {
	node, err := w.nodeWith(s)
	address := addressOf(s)
	if err != nil || node == "" || led[address] == node {
		return err
	}
	if text, err := exec.CommandContext(ctx, "ip", "route", "replace", address+"/32", "via", node).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	led[address] = node
	return nil
}

// nodeWith is the address of a node with a Pod of a Service that is ready.
func (w *world) nodeWith(s *corev1.Service) (string, error) {
	slices, err := w.all.Discovery().V1().EndpointSlices().Lister().EndpointSlices(s.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}))
	if err != nil {
		return "", err
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			if e.NodeName == nil || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			node, err := w.all.Core().V1().Nodes().Lister().Get(*e.NodeName)
			if err != nil {
				return "", err
			}
			for _, a := range node.Status.Addresses {
				if a.Type == corev1.NodeInternalIP {
					return a.Address, nil
				}
			}
		}
	}
	return "", nil
}
