package catalog

import "steward/internal/monitor"

// DefaultPlans are the plans that existing clients know by id.
func DefaultPlans() []Plan {
	return []Plan{
		plan("g6-nanode-1", "Nanode 1GB", "nanode", 1, 1, 25),
		plan("g6-standard-1", "Standard 2GB", "standard", 2, 1, 50),
		plan("g6-standard-2", "Standard 4GB", "standard", 4, 2, 80),
		plan("g6-standard-4", "Standard 8GB", "standard", 8, 4, 160),
		plan("g6-standard-6", "Standard 16GB", "standard", 16, 6, 320),
		plan("g6-standard-8", "Standard 32GB", "standard", 32, 8, 640),
		plan("g6-dedicated-2", "Dedicated 4GB", "dedicated", 4, 2, 80),
		plan("g6-dedicated-4", "Dedicated 8GB", "dedicated", 8, 4, 160),
		plan("g6-dedicated-8", "Dedicated 16GB", "dedicated", 16, 8, 320),
		plan("g6-dedicated-16", "Dedicated 32GB", "dedicated", 32, 16, 640),
	}
}

func plan(id, label, class string, memoryGB, vcpus, diskGB int) Plan {
	return Plan{ID: id, Label: label, Class: class, MemoryMB: memoryGB * 1024, DiskMB: diskGB * 1024, VCPUs: vcpus}
}

// DefaultRegions is this machine.
func DefaultRegions() []Region {
	return []Region{{ID: "local", Label: "This machine", Country: "zz", Status: "ok", Networks: monitor.LocalNetworks()}}
}
