//! Gives names of secrets to sinks; the secrets themselves stay with the host.

use crate::workflow::block_api::manifest::names;
use crate::workflow::block_api::prelude::*;

const SECRETS: &str = "variables_storing_secrets";

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/environment_secrets_store@v1",
    summary: "Passes secrets to sinks by name, one output each. The text of a secret is never \
              shown in steps or results.",
    properties: &[Property::literal(SECRETS, Shape::Texts(1))
        .about("names of the secrets; each is an output in lower case")],
    outputs: &[Output::new("*", &[Kind::Any])],
    own_outputs: |literals| {
        names(literals, SECRETS)
            .into_iter()
            .map(|n| StepOutput::new(n.to_lowercase(), &[Kind::Secret]))
            .collect()
    },
    build,
    ..Manifest::of("secrets_provider")
}];

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    let names = names(setup.literals, SECRETS);
    let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
    if names.is_empty() {
        return Err(format!("{SECRETS} needs at least one name"));
    }
    Ok(Box::new(move |call: &mut Call<'_>| {
        for (i, name) in names.iter().enumerate() {
            if call.host.has_secret(name) {
                call.put(i, Value::Secret(Arc::clone(name)));
            }
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;

    #[test]
    fn secret_is_passed_by_name_and_never_shown() {
        let step = json!({
            "type": "roboflow_core/environment_secrets_store@v1",
            "variables_storing_secrets": ["KEY_OF_DOOR", "NO_SUCH"]
        });
        let mut bench = Bench::new(step, &[]).with_secret("KEY_OF_DOOR");
        let out = bench.feed(&[]).unwrap();
        assert_eq!(out, json!({"key_of_door": "********", "no_such": null}));
    }
}
