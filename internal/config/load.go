package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/monitor"
)

// Default is steward out of the box.
func Default() Config {
	return Config{
		Gateway:     Gateway{PrimaryAddress: "127.0.0.1", SecondaryAddress: "127.0.0.2", Ports: "21000-21255", Driver: GatewayAuto, Hold: 20 * time.Second},
		Limits:      Limits{RequestsPerMinute: 800, StatsPerMinute: 200, FailedLoginsPerMinute: 60, LoginsPerMinute: 10, ChecksPerMinute: 6000, HostChecksPerMinute: 1200},
		Isolation:   Isolation{Bubblewrap: "auto", Cgroups: "auto", UIDBase: 700000},
		Pool:        Pool{Size: 4},
		CORS:        CORS{Origin: "*"},
		Console:     Console{Enabled: true},
		Engines:     Engines{DiscoverEvery: 5 * time.Minute},
		Maintenance: Maintenance{AtOnce: 2},
		Backups:     Backups{Schedule: "00:00", Keep: backup.Autos, Verify: true, Timeout: archive.DefaultTimeout, RetryFor: 10 * time.Minute, KeepFinal: 30 * 24 * time.Hour},
		Restore:     Restore{Credentials: "keep"},
		// SMTP: a request by HTTP must not pass for mail.
		Monitor: Monitor{Interval: time.Minute, ConfirmAfter: monitor.DefaultRules().Confirm, ForbiddenPorts: []int{25, 465, 587}},
		Audit:   Audit{Keep: 400 * 24 * time.Hour},
		Metrics: Metrics{Listen: "127.0.0.1:9180", Databases: true},
	}
}

const envPrefix = "STEWARD_"

// Load reads the defaults, the file (none when path is empty) and the
// environment, in rising order of weight.
func Load(path string) (Config, error) {
	config := Default()
	k := koanf.New(".")
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return config, fmt.Errorf("read configuration %s: %w", path, err)
		}
	}
	// Only names with a double underscore are settings: STEWARD_URL, STEWARD_TOKEN
	// and the like belong to the command line.
	fromEnv := env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(key, value string) (string, any) {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "__", ".")
		if !strings.Contains(name, ".") {
			return "", nil
		}
		if slices.Contains([]string{"gateway.hostnames", "engines.folders", "monitor.forbidden_networks", "monitor.forbidden_ports", "monitor.canaries", "imports.networks", "server.trusted_proxies"}, name) {
			return name, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		}
		return name, value
	}})
	if err := k.Load(fromEnv, nil); err != nil {
		return config, fmt.Errorf("read configuration from the environment: %w", err)
	}
	errs := unknown(k)
	if err := k.Unmarshal("", &config); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, config.validate()...)
	if len(errs) > 0 {
		return config, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return config, nil
}

// unknown names the keys that no field has. What is wrong with values isn't its business.
func unknown(k *koanf.Koanf) (errs []error) {
	var found mapstructure.Metadata
	var config Config
	_ = k.UnmarshalWithConf("", &config, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: &config, TagName: "koanf", Metadata: &found, WeaklyTypedInput: true,
		MatchName:  func(key, field string) bool { return key == field }, // else the case of letters doesn't matter
		DecodeHook: noValue,
	}})
	slices.Sort(found.Unused)
	for _, key := range found.Unused {
		errs = append(errs, fmt.Errorf("unknown key %q", key))
	}
	return errs
}

// noValue keeps a bad value from hiding the unknown keys beside it.
func noValue(_, to reflect.Type, data any) (any, error) {
	if to.Kind() == reflect.Struct || to.Kind() == reflect.Map {
		return data, nil
	}
	return reflect.Zero(to).Interface(), nil
}
