package kubernetes

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// Rights are what steward has to be allowed to do in its namespace, and all that it should be. Lists of Pods and of volumes are
// what it sees of them: both go with the cluster's object, but for volumes that somebody has kept.
func Rights() []rbacv1.PolicyRule {
	change := []string{"get", "list", "watch", "create", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{cnpg.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: change},
		{APIGroups: []string{cnpg.GroupVersion.Group}, Resources: []string{"clusters/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{cnpg.GroupVersion.Group}, Resources: []string{"imagecatalogs"}, Verbs: []string{"get"}},
		{APIGroups: []string{cnpg.GroupVersion.Group}, Resources: []string{"backups"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{cnpg.BarmanGroupVersion.Group}, Resources: []string{"objectstores"}, Verbs: []string{"get"}},
		{APIGroups: []string{mariadb.GroupVersion.Group}, Resources: []string{"mariadbs"}, Verbs: change},
		{APIGroups: []string{mariadb.GroupVersion.Group}, Resources: []string{"physicalbackups"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: change},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		{APIGroups: []string{metricsGroup}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"list", "delete"}},
	}
}

// ofMariaDB reports whether a right is needed where MariaDB runs, and not else.
func ofMariaDB(rule rbacv1.PolicyRule) bool {
	return rule.APIGroups[0] == mariadb.GroupVersion.Group || rule.Resources[0] == "configmaps"
}

// missingRights asks about each by itself.
func missingRights(ctx context.Context, c client.Client, namespace string, mariaDB bool) (missing []Finding, err error) {
	for _, rule := range Rights() {
		if ofMariaDB(rule) && !mariaDB {
			continue
		}
		for _, verb := range rule.Verbs {
			resource, part, _ := strings.Cut(rule.Resources[0], "/")
			ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: part},
			}}
			if err := c.Create(ctx, ask); err != nil {
				return nil, fmt.Errorf("ask for rights: %w", err)
			}
			if !ask.Status.Allowed {
				missing = append(missing, Finding{fmt.Sprintf("steward may not %s %s in the namespace %s", verb, rule.Resources[0], namespace), command(rule, namespace)})
			}
		}
	}
	return missing, nil
}

// command makes a role of a rule, which is then bound to steward's account.
func command(rule rbacv1.PolicyRule, namespace string) string {
	what, part, _ := strings.Cut(rule.Resources[0], "/")
	if rule.APIGroups[0] != "" {
		what += "." + rule.APIGroups[0]
	}
	if part != "" {
		what += "/" + part
	}
	return fmt.Sprintf("kubectl create role steward-%s -n %s --verb=%s --resource=%s", strings.NewReplacer("/", "-", ".", "-").Replace(what), namespace, strings.Join(rule.Verbs, ","), what)
}
