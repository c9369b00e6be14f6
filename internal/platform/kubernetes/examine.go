package kubernetes

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
)

// triedWith is the minor version of the operator that tests play, and whose definitions ours were compared with.
const triedWith = "1.30"

// installCommand installs the operator with its definitions.
const installCommand = "kubectl apply --server-side -f cnpg-" + triedWith + ".x.yaml (its releases have the file)"

// Examined is what was found of a place that databases are to be in.
type Examined struct {
	// Version is the API server's, and Operator that of CloudNativePG; "" where steward may not look for it.
	Version  string `json:"version,omitempty"`
	Operator string `json:"operator,omitempty"`
	// Missing keeps databases from being made there, Notes are worth knowing.
	Missing []Finding `json:"missing"`
	Notes   []Finding `json:"notes"`
}

// Finding is something that was found, and the command that mends it or shows more.
type Finding struct {
	What    string `json:"what"`
	Command string `json:"command"`
}

// examination is an Examined in the making.
type examination struct {
	Examined
	o Options
	c client.Client
}

func (e *examination) miss(what, command string) {
	e.Missing = append(e.Missing, Finding{what, command})
}

func (e *examination) note(what, command string) { e.Notes = append(e.Notes, Finding{what, command}) }

// Examine says what is missing for a Driver of these options. The error says that nobody answers at all. Nothing is changed.
func Examine(ctx context.Context, o Options) (Examined, error) {
	e := &examination{o: o}
	if err := e.o.complete(); err != nil {
		return e.Examined, err
	}
	scheme, err := Scheme()
	if err == nil {
		err = authorizationv1.AddToScheme(scheme)
	}
	if err != nil {
		return e.Examined, err
	}
	if e.c, err = client.New(o.Config, client.Options{Scheme: scheme}); err != nil {
		return e.Examined, fmt.Errorf("prepare requests: %w", err)
	}
	if e.Version, err = serverVersion(ctx, o); err != nil {
		return e.Examined, err
	}
	if e.Missing, err = missingRights(ctx, e.c, o.Namespace, o.MariaDBImages != ""); err != nil {
		return e.Examined, err
	}
	allowed := len(e.Missing) == 0
	image, series := e.images(ctx)
	if allowed {
		e.tryObject(ctx, image, series)
		e.mariaDB(ctx)
	}
	e.operator(ctx)
	e.storage(ctx)
	e.objectStore(ctx)
	e.usage(ctx)
	return e.Examined, nil
}

func serverVersion(ctx context.Context, o Options) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(o.Config)
	if err != nil {
		return "", fmt.Errorf("prepare requests: %w", err)
	}
	text, err := d.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return between(string(text), `"gitVersion": "`, `"`), nil
}

// between is what stands in a text after one string and before another; "" without them.
func between(text, after, before string) string {
	_, rest, _ := strings.Cut(text, after)
	found, _, ok := strings.Cut(rest, before)
	if !ok {
		return ""
	}
	return found
}

// images looks through the image catalog, and returns one of it, or one that might be.
func (e *examination) images(ctx context.Context) (image, series string) {
	image, series = "postgresql:18.0", "18"
	var images cnpg.ImageCatalog
	err := e.c.Get(ctx, client.ObjectKey{Namespace: e.o.Namespace, Name: e.o.ImageCatalog}, &images)
	edit := fmt.Sprintf("kubectl edit imagecatalogs.%s -n %s %s", cnpg.GroupVersion.Group, e.o.Namespace, e.o.ImageCatalog)
	switch {
	case meta.IsNoMatchError(err):
		e.miss("CloudNativePG isn't installed: its definition of ImageCatalog is missing", installCommand)
	case apierrors.IsNotFound(err):
		e.miss(fmt.Sprintf("the image catalog %s isn't in the namespace %s", e.o.ImageCatalog, e.o.Namespace), "kubectl apply -n "+e.o.Namespace+" -f deploy/kubernetes/images.yaml")
	case err != nil:
		e.miss(fmt.Sprintf("the image catalog %s can't be read: %v", e.o.ImageCatalog, err), edit)
	case len(images.Spec.Images) == 0:
		e.miss(fmt.Sprintf("the image catalog %s has no image", e.o.ImageCatalog), edit)
	}
	for _, i := range images.Spec.Images {
		if image, series = i.Image, strconv.Itoa(i.Major); versionOf(i.Image) == "" {
			e.miss(fmt.Sprintf("the image %s of the catalog %s has no version in its tag", i.Image, e.o.ImageCatalog), edit)
		}
	}
	return image, series
}

// tryObject has the API server say what it would say to a database's object, without making it: whether there is the namespace,
// whether the definition has all the fields, whether the operator's webhook answers.
func (e *examination) tryObject(ctx context.Context, image, series string) {
	told, ok := e.o.Engine.(engine.Told)
	if !ok {
		return
	}
	made := e.example(cloudNativePG{told: told}, image, series)
	made.want.Size, made.want.Replication, made.want.Commit = 3, cluster.Asynch, cluster.CommitRemoteWrite
	if e.o.ObjectStore != "" {
		made.archiveTo(e.o.ObjectStore)
	}
	e.try(ctx, made, installCommand, "kubectl get pods -A -l app.kubernetes.io/name=cloudnative-pg")
}

// example is a database that could be made.
func (e *examination) example(op operator, image, series string) desired {
	want := platform.Wanted{Cluster: cluster.Cluster{Spec: cluster.Spec{
		Engine: op.engine(), Series: series, Size: 1, SSLConnection: true, AllowList: cluster.AllowList{netip.MustParsePrefix("192.0.2.0/24").String()},
	}}, Plan: catalog.DefaultPlans()[0]}
	return desired{names: names{namespace: e.o.Namespace, generation: 1}, o: &e.o, op: op, want: want, image: image, diskMB: want.Plan.DiskMB}
}

// try has the API server say what it would say to a database's object. install installs its operator, and look shows that.
func (e *examination) try(ctx context.Context, made desired, install, look string) {
	object, err := made.op.object(made)
	if err == nil {
		err = write(ctx, client.WithFieldValidation(e.c, "Strict"), object, client.DryRunAll)
	}
	if err == nil {
		return
	}
	command := look
	switch {
	case isUndefined(err):
		command = install
	case isUndeclared(err):
		command = "kubectl explain --recursive " + made.op.resource() + ".spec"
	case apierrors.IsNotFound(err):
		command = "kubectl create namespace " + e.o.Namespace
	}
	e.miss(fmt.Sprintf("a database's object would be refused: %v", err), command)
}

// installMariaDB installs the operator of MariaDB with its definitions.
const installMariaDB = "helm install mariadb-operator-crds and mariadb-operator, 26.6.x (of its repository)"

// mariaDB looks at the images of MariaDB, and tries an object of its operator.
func (e *examination) mariaDB(ctx context.Context) {
	if e.o.MariaDBImages == "" {
		return
	}
	placed, ok := e.o.MariaDB.(engine.Placed)
	if !ok {
		return
	}
	images := &corev1.ConfigMap{}
	err := e.c.Get(ctx, client.ObjectKey{Namespace: e.o.Namespace, Name: e.o.MariaDBImages}, images)
	edit := fmt.Sprintf("kubectl edit configmap -n %s %s", e.o.Namespace, e.o.MariaDBImages)
	switch {
	case apierrors.IsNotFound(err):
		e.miss(fmt.Sprintf("the images of MariaDB %s aren't in the namespace %s", e.o.MariaDBImages, e.o.Namespace), "kubectl apply -n "+e.o.Namespace+" -f deploy/kubernetes/mariadb.yaml")
		return
	case err != nil:
		e.miss(fmt.Sprintf("the images of MariaDB %s can't be read: %v", e.o.MariaDBImages, err), edit)
		return
	case len(images.Data) == 0:
		e.miss(fmt.Sprintf("the ConfigMap %s has no image of MariaDB", e.o.MariaDBImages), edit)
		return
	}
	op := mariaDBOperator{placed: placed}
	all := imagesIn(images)
	for _, i := range all {
		if op.installation(i.image).Series != i.series {
			e.miss(fmt.Sprintf("the image %s in %s isn't of %s by its tag", i.image, e.o.MariaDBImages, i.series), edit)
		}
	}
	last := all[len(all)-1]
	const look = "kubectl get pods -A -l app.kubernetes.io/name=mariadb-operator"
	made := e.example(op, last.image, last.series)
	e.try(ctx, made, installMariaDB, look)
	e.mariaDBBackup(ctx, made, look)
}

// mariaDBBackup looks whether the operator can be told where backups are, and tries an object of one. What is wrong with the bucket is told by itself.
func (e *examination) mariaDBBackup(ctx context.Context, made desired, look string) {
	if e.o.ObjectStore == "" {
		return
	}
	said, options, err := describedStore(ctx, e.c, e.o)
	if err != nil {
		return
	}
	place, err := placeOf(said, options, "db-1")
	if err != nil {
		e.miss(fmt.Sprintf("MariaDB can't be backed up to the object store %s: %v", e.o.ObjectStore, err),
			fmt.Sprintf("kubectl edit objectstores.%s -n %s %s", cnpg.BarmanGroupVersion.Group, e.o.Namespace, e.o.ObjectStore))
		return
	}
	if err := write(ctx, client.WithFieldValidation(e.c, "Strict"), made.physicalBackup(1, place), client.DryRunAll); err != nil {
		command := look
		if isUndefined(err) {
			command = installMariaDB
		}
		e.miss(fmt.Sprintf("a backup of MariaDB would be refused: %v", err), command)
	}
}

// operator looks for the operator's version.
func (e *examination) operator(ctx context.Context) {
	const look = "kubectl get deployments -A -l app.kubernetes.io/name=cloudnative-pg -o wide"
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
	err := e.c.List(ctx, all, client.MatchingLabels{"app.kubernetes.io/name": "cloudnative-pg"})
	switch {
	case apierrors.IsForbidden(err):
		e.note("the operator's version isn't known, since steward may not look for it", look)
	case err != nil:
		e.note(fmt.Sprintf("the operator's version isn't known: %v", err), look)
	case len(all.Items) == 0:
		e.miss("the operator CloudNativePG doesn't run", look)
	case len(all.Items) > 1:
		e.miss("several operators CloudNativePG run, which they don't support", look)
	default:
		containers, _, _ := unstructured.NestedSlice(all.Items[0].Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			if c, ok := c.(map[string]any); ok && e.Operator == "" {
				image, _ := c["image"].(string)
				e.Operator = versionOf(image)
			}
		}
		if !strings.HasPrefix(e.Operator+".", triedWith+".") {
			e.note(fmt.Sprintf("the operator's version is %q, and steward is tested for %s", e.Operator, triedWith), look)
		}
	}
}

// storage looks at whether volumes of the classes can grow.
func (e *examination) storage(ctx context.Context) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClassList"})
	err := e.c.List(ctx, all)
	switch {
	case apierrors.IsForbidden(err):
		e.note("whether volumes can grow isn't known, since steward may not look at storage classes", lookAtClasses)
		return
	case err != nil:
		e.note(fmt.Sprintf("whether volumes can grow isn't known: %v", err), lookAtClasses)
		return
	}
	e.class(all.Items, e.o.StorageClass)
	if e.o.EncryptedStorageClass != "" {
		e.class(all.Items, e.o.EncryptedStorageClass)
	}
}

const lookAtClasses = "kubectl get storageclasses"

// class looks at one of the storage classes; "" is the default.
func (e *examination) class(all []unstructured.Unstructured, name string) {
	for _, class := range all {
		standard := class.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true"
		if class.GetName() != name && (name != "" || !standard) {
			continue
		}
		if grows, _, _ := unstructured.NestedBool(class.Object, "allowVolumeExpansion"); !grows {
			e.miss(fmt.Sprintf("volumes of the storage class %s can't grow, and databases couldn't be resized", class.GetName()),
				fmt.Sprintf(`kubectl patch storageclass %s -p '{"allowVolumeExpansion": true}'`, class.GetName()))
		}
		return
	}
	if name == "" {
		e.miss("there is no default storage class, and platform.storage_class names none", lookAtClasses)
		return
	}
	e.miss("there is no storage class "+name, lookAtClasses)
}

// objectStore looks at where backups are kept, and asks the bucket for what is in it.
func (e *examination) objectStore(ctx context.Context) {
	if e.o.ObjectStore == "" {
		e.note("databases have no backups there, since platform.object_store names no ObjectStore", "kubectl get objectstores."+cnpg.BarmanGroupVersion.Group+" -n "+e.o.Namespace)
		return
	}
	edit := fmt.Sprintf("kubectl edit objectstores.%s -n %s %s", cnpg.BarmanGroupVersion.Group, e.o.Namespace, e.o.ObjectStore)
	said := &cnpg.ObjectStore{}
	err := e.c.Get(ctx, client.ObjectKey{Namespace: e.o.Namespace, Name: e.o.ObjectStore}, said)
	switch {
	case meta.IsNoMatchError(err):
		e.miss("the plugin barman-cloud of CloudNativePG isn't installed: its definition of ObjectStore is missing", "kubectl apply -f manifest.yaml (its releases have the file)")
		return
	case apierrors.IsNotFound(err):
		e.miss(fmt.Sprintf("the object store %s isn't in the namespace %s", e.o.ObjectStore, e.o.Namespace), "kubectl apply -n "+e.o.Namespace+" -f deploy/kubernetes/backups.yaml")
		return
	case apierrors.IsForbidden(err):
		return // it is told among the rights that are missing
	case err != nil:
		e.miss(fmt.Sprintf("the object store %s can't be read: %v", e.o.ObjectStore, err), edit)
		return
	case said.Spec.RetentionPolicy != "":
		e.miss(fmt.Sprintf("the object store %s has a retentionPolicy, with which the plugin drops backups that steward keeps", e.o.ObjectStore), edit)
	}
	store, err := openStore(ctx, e.c, e.o)
	if err == nil {
		defer store.Close()
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		_, err = store.Servers(ctx, "db-")
	}
	if err != nil {
		e.miss(fmt.Sprintf("the bucket can't be read from here: %v", err), edit)
	}
}
