-- The health of a StreamApp for Argo CD: the key resource.customizations.health.headwater.dev_StreamApp of argocd-cm.

local status = obj.status
if status == nil or status.conditions == nil then
  return {status = "Progressing", message = "the operator has not seen the StreamApp yet"}
end

local found = {}
for _, condition in ipairs(status.conditions) do
  found[condition.type] = condition
end

local function is_true(kind)
  return found[kind] ~= nil and found[kind].status == "True"
end

local function said(health, kind)
  return {status = health, message = found[kind].reason .. ": " .. (found[kind].message or "")}
end

if is_true("Paused") then
  return said("Suspended", "Paused")
end
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not seen the last change yet"}
end
if is_true("Stalled") then
  return said("Degraded", "Stalled")
end
if is_true("Reconciling") then
  return said("Progressing", "Reconciling")
end
if is_true("Suspended") then
  return said("Suspended", "Suspended")
end
if is_true("Ready") then
  return said("Healthy", "Ready")
end
if found["Ready"] ~= nil and found["Ready"].reason == "NoReplicas" then
  return said("Suspended", "Ready")
end
if is_true("Degraded") then
  return said("Degraded", "Degraded")
end
return {status = "Progressing", message = status.reason or ""}
