{{/* Names, labels and images that several templates use. */}}

{{- define "headwater.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- printf "%s-operator" (trunc 40 .Release.Name | trimSuffix "-") -}}
{{- else -}}
{{- printf "%s-%s-operator" (trunc 26 .Release.Name | trimSuffix "-") $name -}}
{{- end -}}
{{- end -}}

{{/* Objects that live in no namespace: two releases of one name must not meet. */}}
{{- define "headwater.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "headwater.fullname" .) -}}
{{- end -}}

{{- define "headwater.serviceAccount" -}}
{{- $name := .Values.serviceAccount.name -}}
{{- if not $name -}}
{{- $name = ternary (include "headwater.fullname" .) "default" .Values.serviceAccount.create -}}
{{- end -}}
{{- if or (hasPrefix "headwater-worker-" $name) (hasPrefix "headwater-driver-" $name) -}}
{{- fail (printf "serviceAccount.name: %s would be held for a worker's or a driver's; choose another name" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Its tokens are shown to workers. It has no rights. */}}
{{- define "headwater.caller" -}}
{{- printf "%s-caller" (include "headwater.fullname" .) -}}
{{- end -}}

{{/* Of the operator's pods, and of nothing else. */}}
{{- define "headwater.selector" -}}
app.kubernetes.io/name: headwater
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "headwater.labels" -}}
{{ include "headwater.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The hook that deletes StreamApps: its objects, and labels that do not make its pod one of the operator's. */}}
{{- define "headwater.uninstall" -}}
{{- printf "%s-uninstall" (include "headwater.fullname" .) -}}
{{- end -}}

{{- define "headwater.uninstallLabels" -}}
{{- set (include "headwater.labels" . | fromYaml) "app.kubernetes.io/component" "uninstall" | toYaml -}}
{{- end -}}

{{- define "headwater.image" -}}
{{- $image := .Values.image -}}
{{- $name := $image.repository -}}
{{- if $image.registry }}{{ $name = printf "%s/%s" $image.registry $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* For StreamApps that name none: the plain worker of this version, from where the operator's image comes. */}}
{{- define "headwater.workerImage" -}}
{{- if .Values.worker.image -}}
{{- .Values.worker.image -}}
{{- else -}}
{{- $name := printf "headwater-worker:%s" .Chart.AppVersion -}}
{{- if .Values.image.registry }}{{ $name = printf "%s/%s" .Values.image.registry $name }}{{ end -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The same for those that Spark runs: the worker with Spark and Java. */}}
{{- define "headwater.sparkImage" -}}
{{- if .Values.worker.sparkImage -}}
{{- .Values.worker.sparkImage -}}
{{- else -}}
{{- $name := printf "headwater-worker:%s-spark" .Chart.AppVersion -}}
{{- if .Values.image.registry }}{{ $name = printf "%s/%s" .Values.image.registry $name }}{{ end -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* Takes the root and the name of a value: what it asks for exists only beside the Prometheus operator. */}}
{{- define "headwater.needsPrometheus" -}}
{{- if not ((index . 0).Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}
{{- fail (printf "metrics.%s.create: the cluster does not know monitoring.coreos.com/v1; install the Prometheus operator first, or leave it out (helm template: --api-versions=monitoring.coreos.com/v1)" (index . 1)) -}}
{{- end -}}
{{- end -}}

{{/* Who may call the workers' port, as JSON: the operator, and who reads metrics. */}}
{{- define "headwater.workerCallers" -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace) -}}
{{- $pods := dict "matchLabels" (include "headwater.selector" . | fromYaml) -}}
{{- $operator := dict "namespaceSelector" $namespace "podSelector" $pods -}}
{{- concat (list $operator) (dig "metricsFrom" list (.Values.networkPolicy | default dict)) | toJson -}}
{{- end -}}

{{/* What `helm upgrade --reuse-values` leaves out: values that the release before did not have. Each template begins with it. */}}
{{- define "headwater.complete" -}}
{{- include "headwater.fill" (list .Values (.Files.Get "files/values.yaml" | fromYaml)) -}}
{{- end -}}

{{/* Takes values and what stands in for those that are missing. Nothing of Helm's or Sprig's merges false and 0 right. */}}
{{- define "headwater.fill" -}}
{{- $values := index . 0 -}}
{{- range $name, $default := index . 1 -}}
{{- if not (hasKey $values $name) -}}
{{- $_ := set $values $name $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (index $values $name)) -}}
{{- include "headwater.fill" (list (index $values $name) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "headwater.webNames" -}}
{{- $service := printf "%s-web" (include "headwater.fullname" .) -}}
{{- $own := list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) -}}
{{- join "," (concat $own .Values.web.hostNames) -}}
{{- end }}
