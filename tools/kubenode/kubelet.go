package main

import (
	"os"
	"path/filepath"
	"time"

	info "github.com/google/cadvisor/info/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
)

// node is what kubelets of one machine differ in.
type node struct {
	name, address, folder, kubeconfig, clientCA, dns, cgroup string
	cpus                                                     int
}

func kubelet() *cobra.Command {
	var n node
	c := &cobra.Command{Use: "kubelet", SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return n.run() }}
	c.Flags().StringVar(&n.name, "name", "", "the node's name")
	c.Flags().StringVar(&n.address, "address", "", "the node's address")
	c.Flags().StringVar(&n.folder, "folder", "", "where everything of the node is; containerd.sock is in it")
	c.Flags().StringVar(&n.kubeconfig, "kubeconfig", "", "the file to log in with")
	c.Flags().StringVar(&n.clientCA, "client-ca", "", "the certificate that the API server's own is signed with")
	c.Flags().StringVar(&n.dns, "dns", "", "the address of the name server of Pods")
	c.Flags().StringVar(&n.cgroup, "cgroup", "", "the control group of all that is the node's, which exists")
	c.Flags().IntVar(&n.cpus, "cpus", 0, "how many processors the node says that it has")
	return c
}

func (n node) run() error {
	ctx := genericapiserver.SetupSignalContext()
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		return err
	}
	never, yes := false, true
	c.ContainerRuntimeEndpoint = "unix://" + filepath.Join(n.folder, "containerd.sock")
	c.CgroupRoot, c.CgroupDriver, c.FailCgroupV1, c.FailSwapOn = n.cgroup, "cgroupfs", false, false
	c.Address, c.ReadOnlyPort = n.address, 0
	c.Authentication.X509.ClientCAFile = n.clientCA
	c.Authentication.Anonymous.Enabled, c.Authentication.Webhook.Enabled = never, never
	c.Authorization.Mode = "AlwaysAllow"
	c.ClusterDNS, c.ClusterDomain, c.ResolverConfig = []string{n.dns}, "cluster.local", ""
	// Images come from no registry: one that is removed to have more room wouldn't come back.
	c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = 100, 99
	c.EvictionHard, c.EnforceNodeAllocatable = map[string]string{"memory.available": "100Mi"}, []string{"pods"}
	c.PodLogsDir = filepath.Join(n.folder, "logs")
	c.MakeIPTablesUtilChains, c.EnableServer = true, yes
	c.NodeStatusUpdateFrequency = metav1.Duration{Duration: 5 * time.Second}
	f := options.NewKubeletFlags()
	f.KubeConfig, f.HostnameOverride, f.NodeIP = n.kubeconfig, n.name, n.address
	f.RootDirectory, f.CertDirectory = filepath.Join(n.folder, "kubelet"), filepath.Join(n.folder, "certificates")
	for _, folder := range []string{f.RootDirectory, f.CertDirectory, c.PodLogsDir} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	s := &options.KubeletServer{KubeletFlags: *f, KubeletConfiguration: *c}
	needs, err := app.UnsecuredDependencies(ctx, s, feature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	images := cadvisor.NewImageFsInfoProvider(s.ContainerRuntimeEndpoint)
	machine, err := cadvisor.New(klog.FromContext(ctx), images, s.RootDirectory, []string{n.cgroup}, false, s.LocalStorageCapacityIsolation)
	if err != nil {
		return err
	}
	needs.CAdvisorInterface = sized{machine, n.cpus}
	return app.Run(ctx, s, needs, feature.DefaultFeatureGate)
}

// sized says another number of processors: three servers of one processor each are to fit onto a machine that has two.
type sized struct {
	cadvisor.Interface
	cpus int
}

func (s sized) MachineInfo() (*info.MachineInfo, error) {
	m, err := s.Interface.MachineInfo()
	if err != nil || s.cpus == 0 {
		return m, err
	}
	other := *m
	other.NumCores = s.cpus
	return &other, nil
}
