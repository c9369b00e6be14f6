package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// world is what a cluster has around it elsewhere: names, volumes and load balancers.
type world struct {
	client kubernetes.Interface
	all    informers.SharedInformerFactory
	// listen is the name server's address, volumes the folder of all volumes, which all nodes see, and balancers the first three numbers of load
	// balancers' addresses.
	listen, volumes, balancers string
}

// everySoOften is how often what is wanted is compared with what there is. It costs nothing: both are watched.
const everySoOften = 100 * time.Millisecond

func surroundings() *cobra.Command {
	var w world
	var kubeconfig string
	c := &cobra.Command{Use: "surroundings", SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return w.run(kubeconfig) }}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "the file to log in with")
	c.Flags().StringVar(&w.listen, "names", "", "the address and port to answer for names of Services at")
	c.Flags().StringVar(&w.volumes, "volumes", "", "the folder that volumes are made in")
	c.Flags().StringVar(&w.balancers, "balancers", "", "the first three numbers of load balancers' addresses")
	return c
}

func (w *world) run(kubeconfig string) error {
	ctx := genericapiserver.SetupSignalContext()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	w.all = informers.NewSharedInformerFactory(w.client, 0)
	core, discovery := w.all.Core().V1(), w.all.Discovery().V1()
	core.PersistentVolumeClaims().Informer()
	core.PersistentVolumes().Informer()
	core.Services().Informer()
	core.Nodes().Informer()
	discovery.EndpointSlices().Informer()
	w.all.Start(ctx.Done())
	w.all.WaitForCacheSync(ctx.Done())
	if err := w.serveNames(ctx); err != nil {
		return err
	}
	for {
		for _, part := range []func(context.Context) error{w.bringVolumes, w.bringBalancers} {
			if err := part(ctx); err != nil {
				klog.ErrorS(err, "will be tried again")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(everySoOften):
		}
	}
}

func everything() labels.Selector { return labels.Everything() }

func failed(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, name, err)
}
