//! Statements: what has to hold, from operands, comparators and groups.
//!
//! Invariant: a group has at least one statement, and every one of them is evaluated.

use serde::Deserialize;

use super::compare::{Binary, Unary};
use super::{Chain, Env, apply};
use crate::workflow::values::value::Value;

/// Statements joined by one operator, evaluated from left to right without a short circuit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StatementGroup {
    #[serde(rename = "type")]
    _type: GroupTag,
    #[serde(deserialize_with = "at_least_one")]
    statements: Vec<Statement>,
    #[serde(default)]
    operator: Operator,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum GroupTag {
    StatementGroup,
}

/// How statements are joined.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operator {
    And,
    #[default]
    Or,
}

/// One statement.
#[expect(
    clippy::enum_variant_names,
    reason = "the names are those of the language"
)]
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Statement {
    BinaryStatement {
        left_operand: Operand,
        comparator: Tagged<Binary>,
        right_operand: Operand,
        #[serde(default)]
        negate: bool,
    },
    UnaryStatement {
        operand: Operand,
        operator: Tagged<Unary>,
        #[serde(default)]
        negate: bool,
    },
    StatementGroup {
        #[serde(deserialize_with = "at_least_one")]
        statements: Vec<Statement>,
        #[serde(default)]
        operator: Operator,
    },
}

/// `{"type": "…"}` around a name.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Tagged<T> {
    #[serde(rename = "type")]
    name: T,
}

/// A value in a statement.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Operand {
    StaticOperand {
        value: Value,
        #[serde(default)]
        operations: Chain,
    },
    DynamicOperand {
        #[serde(default = "element")]
        operand_name: String,
        #[serde(default)]
        operations: Chain,
    },
}

fn element() -> String {
    "_".to_owned()
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Statement>, D::Error> {
    let statements = Vec::deserialize(d)?;
    if statements.is_empty() {
        return Err(serde::de::Error::custom(
            "statements has to hold at least one statement",
        ));
    }
    Ok(statements)
}

impl StatementGroup {
    /// Whether it holds.
    pub(crate) fn holds(&self, env: &Env<'_>) -> Result<bool, String> {
        join(&self.statements, self.operator, env)
    }
}

fn join(statements: &[Statement], operator: Operator, env: &Env<'_>) -> Result<bool, String> {
    let mut result = matches!(operator, Operator::And);
    for statement in statements {
        let holds = statement.holds(env)?;
        result = match operator {
            Operator::And => result && holds,
            Operator::Or => result || holds,
        };
    }
    Ok(result)
}

impl Statement {
    fn holds(&self, env: &Env<'_>) -> Result<bool, String> {
        env.budget.charge(1)?;
        match self {
            Self::BinaryStatement {
                left_operand,
                comparator,
                right_operand,
                negate,
            } => {
                let (left, right) = (left_operand.value(env)?, right_operand.value(env)?);
                let items = |v: &Value| v.as_list().map_or(1, <[Value]>::len);
                env.budget
                    .charge(items(&left).saturating_mul(items(&right)))?;
                Ok(comparator.name.holds(&left, &right)? != *negate)
            }
            Self::UnaryStatement {
                operand,
                operator,
                negate,
            } => Ok(operator.name.holds(&operand.value_or_null(env)?)? != *negate),
            Self::StatementGroup {
                statements,
                operator,
            } => join(statements, *operator, env),
        }
    }
}

impl Operand {
    fn value(&self, env: &Env<'_>) -> Result<Value, String> {
        match self {
            Self::StaticOperand { value, operations } => apply(operations, value.clone(), env),
            Self::DynamicOperand {
                operand_name,
                operations,
            } => {
                let value = env
                    .get(operand_name)
                    .ok_or_else(|| format!("there is no value called {operand_name}"))?;
                apply(operations, value, env)
            }
        }
    }

    /// As [`Self::value`]; a name that isn't there is nothing, so that existence can be asked for.
    fn value_or_null(&self, env: &Env<'_>) -> Result<Value, String> {
        match self {
            Self::DynamicOperand { operand_name, .. } if env.get(operand_name).is_none() => {
                Ok(Value::Null)
            }
            _ => self.value(env),
        }
    }
}
